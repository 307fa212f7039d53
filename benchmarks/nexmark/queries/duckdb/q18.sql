SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, last_of_equals(arrival)) = 1
