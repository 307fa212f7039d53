SELECT auction, price, bidder, date_time, extra FROM bid
QUALIFY price = MAX(price) OVER (PARTITION BY epoch_ms(date_time) // 10000)
