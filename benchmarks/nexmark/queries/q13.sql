SELECT b.auction, b.bidder, b.price, b.date_time, s.value AS note
FROM bid AS b JOIN side AS s ON b.auction % 10000 = s.key
