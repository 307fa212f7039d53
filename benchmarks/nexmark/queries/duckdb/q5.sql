WITH placed AS (
  SELECT auction, to_timestamp((epoch_ms(date_time) // 2000 - back) * 2) AS window_start
  FROM bid, range(5) AS slides(back)
),
counted AS (SELECT auction, window_start, COUNT(*) AS bids FROM placed GROUP BY ALL)
SELECT auction, bids, window_start, window_start + INTERVAL 10 SECOND AS window_end
FROM counted QUALIFY RANK() OVER (PARTITION BY window_start ORDER BY bids DESC) = 1
