WITH counted AS (
  SELECT auction, window_start, window_end, COUNT(*) AS bids
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
),
most AS (
  SELECT window_start, window_end, MAX(bids) AS bids FROM counted GROUP BY window_start, window_end
)
SELECT c.auction, c.bids, c.window_start, c.window_end
FROM counted AS c JOIN most AS m
  ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids >= m.bids
