"""Examples of what `aggloom generate` writes, to read and to start from.

| module | shows |
| --- | --- |
| `sum_max_by_name` | SUM and MAX of one column over a retracting input: sum, count, ordered view, record counter |
| `sum_max_by_name_plain` | the same for the plain Python backend |
| `flights_by_carrier` | the query of the demo: five aggregates, a DISTINCT with its counted view |
| `page_views` | append-only: no retract, no ordered view; two DISTINCT calls that share one view, a FILTER |
| `account_balance` | decimals, FIRST_VALUE and LAST_VALUE under retraction, in Flink's dialect |
| `delays_in_windows` | a handler in windows: its methods take the window as a namespace |
| `top_two` | a table aggregate of one's own, compiled: `emitValue`, and `emitUpdateWithRetract` as its class says it |
| `value_buckets_plain` | a table aggregate in plain Python: any state, any number of rows |

`make generated` writes them again after a change to the generator.
"""
