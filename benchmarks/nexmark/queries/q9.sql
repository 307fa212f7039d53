SELECT id, item_name, description, initial_bid, reserve, opened, expires, seller, category, bidder, price, bid_time, extra
FROM (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS opened, a.expires, a.seller,
    a.category, b.bidder, b.price, b.date_time AS bid_time, b.extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
  FROM auction AS a JOIN bid AS b ON b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires
) AS ranked
WHERE place = 1
