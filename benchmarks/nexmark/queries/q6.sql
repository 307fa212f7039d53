SELECT seller, AVG(price) OVER (PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT a.id, a.seller, b.price, b.date_time,
    ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.date_time, b.bidder) AS place
  FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires
) AS won
WHERE place = 1
