SELECT auction, bidder, price, channel, url, date_time, extra,
  ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, arrival) AS place
FROM bid QUALIFY place <= 10
