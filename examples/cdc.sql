-- From a database through Debezium and Kafka back into a database: `make demo-cdc` runs it.
-- Debezium tells each change at least once, so rows go by their keys ('changes' = 'upsert'): one that comes twice changes nothing.
CREATE TABLE customers (id INT, name STRING, country STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = 'shop.public.customers', 'properties.bootstrap.servers' = '${servers}',
  'format' = 'debezium-json', 'changes' = 'upsert');
CREATE TABLE orders (id INT, customer INT, status STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = 'shop.public.orders', 'properties.bootstrap.servers' = '${servers}',
  'format' = 'debezium-json', 'changes' = 'upsert');

CREATE TABLE details (id INT, name STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'jdbc', 'url' = '${url}', 'table-name' = 'results.details');
CREATE TABLE revenue (country STRING, orders BIGINT, total DECIMAL(20, 2), PRIMARY KEY (country) NOT ENFORCED) WITH (
  'connector' = 'jdbc', 'url' = '${url}', 'table-name' = 'results.revenue');
CREATE TABLE largest (status STRING, place BIGINT, id INT, amount DECIMAL(10, 2), PRIMARY KEY (status, place) NOT ENFORCED) WITH (
  'connector' = 'jdbc', 'url' = '${url}', 'table-name' = 'results.largest');
CREATE TABLE lake (country STRING, orders BIGINT, total DECIMAL(20, 2), PRIMARY KEY (country) NOT ENFORCED) WITH (
  'connector' = 'delta', 'table-path' = 'lake/revenue');

EXECUTE STATEMENT SET BEGIN
INSERT INTO details
  SELECT o.id, c.name, o.amount FROM orders AS o JOIN customers AS c ON o.customer = c.id;
INSERT INTO revenue
  SELECT c.country, COUNT(*), SUM(o.amount) FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.country;
INSERT INTO lake
  SELECT c.country, COUNT(*), SUM(o.amount) FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.country;
INSERT INTO largest
  SELECT status, place, id, amount FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY status ORDER BY amount DESC, id) AS place FROM orders) WHERE place <= 3;
END;
