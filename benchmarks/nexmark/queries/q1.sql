SELECT auction, bidder, 0.908 * price AS euros, date_time, extra FROM bid
