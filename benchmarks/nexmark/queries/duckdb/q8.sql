SELECT id, name, to_timestamp(epoch_ms(date_time) // 10000 * 10) AS window_start
FROM person AS p
WHERE EXISTS (
  SELECT 1 FROM auction AS a
  WHERE a.seller = p.id AND epoch_ms(a.date_time) // 10000 = epoch_ms(p.date_time) // 10000
)
