SELECT auction, strftime(date_time, '%Y-%m-%d') AS day,
  COUNT(*) AS bids,
  COUNT(*) FILTER (WHERE price < 10000) AS low_bids,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle_bids,
  COUNT(*) FILTER (WHERE price >= 1000000) AS high_bids,
  MIN(price) AS least, MAX(price) AS most, AVG(price) AS average, SUM(price)::BIGINT AS total
FROM bid
GROUP BY auction, strftime(date_time, '%Y-%m-%d')
