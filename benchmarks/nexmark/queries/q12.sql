SELECT bidder, window_start, window_end, COUNT(*) AS bids
FROM TABLE(TUMBLE(TABLE (SELECT bidder, PROCTIME() AS seen FROM bid), DESCRIPTOR(seen), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
