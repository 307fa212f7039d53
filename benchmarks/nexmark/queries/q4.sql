SELECT category, AVG(won) AS average
FROM (
  SELECT a.id, a.category, MAX(b.price) AS won
  FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
) AS final
GROUP BY category
