WITH timed AS (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))),
highest AS (
  SELECT window_start, window_end, MAX(price) AS price
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
)
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM timed AS b JOIN highest AS h
  ON b.window_start = h.window_start AND b.window_end = h.window_end AND b.price = h.price
