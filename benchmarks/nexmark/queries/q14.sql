SELECT auction, bidder, 0.908 * price AS euros,
  CASE
    WHEN HOUR(date_time) BETWEEN 8 AND 18 THEN 'day'
    WHEN HOUR(date_time) <= 6 OR HOUR(date_time) >= 20 THEN 'night'
    ELSE 'between'
  END AS part_of_day,
  date_time, extra, count_char(extra, 'c') AS letters
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
