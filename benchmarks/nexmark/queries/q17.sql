SELECT auction, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS day,
  COUNT(*) AS bids,
  COUNT(*) FILTER (WHERE price < 10000) AS low_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS high_bids,
  MIN(price) AS least, MAX(price) AS most, AVG(price) AS average, SUM(price) AS total
FROM bid
GROUP BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd')
