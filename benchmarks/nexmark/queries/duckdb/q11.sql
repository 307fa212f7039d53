-- A session stays as long as it was, whatever is deleted of it later.
WITH begun AS (
  SELECT bidder, date_time, stays,
    epoch_ms(date_time) - LAG(epoch_ms(date_time)) OVER (PARTITION BY bidder ORDER BY date_time) <= 10000 AS goes_on
  FROM bid_ever
),
numbered AS (
  SELECT *, SUM(CASE WHEN goes_on THEN 0 ELSE 1 END) OVER (PARTITION BY bidder ORDER BY date_time) AS number FROM begun
)
SELECT bidder, MIN(date_time) AS window_start, MAX(date_time) + INTERVAL 10 SECOND AS window_end,
  SUM(stays)::BIGINT AS bids
FROM numbered GROUP BY bidder, number HAVING SUM(stays) > 0
