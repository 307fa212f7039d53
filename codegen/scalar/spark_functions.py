"""The functions of Spark SQL with how many arguments each takes, as the registry of Spark 4.3 has them.

Written from `SHOW FUNCTIONS` and the errors that the analyser gives for too few and too many arguments;
tests/sql/test_function_names.py goes by it.
"""

from __future__ import annotations

from typing import Final

ARITIES: Final[dict[str, tuple[int, int | None]]] = {
    name: arity
    for arity, names in {
        (0, 0): (
            "curdate current_catalog current_database current_schema current_timezone e "
            "input_file_block_length input_file_block_start input_file_name "
            "monotonically_increasing_id pi spark_partition_id version"
        ),
        (0, 1): (
            "explode explode_outer inline inline_outer localtimestamp now posexplode "
            "posexplode_outer rand randn random uuid"
        ),
        (0, 2): ("make_ym_interval unix_timestamp variant_strip_nulls"),
        (0, 4): (
            "make_dt_interval try_variant_set tuple_union_double tuple_union_integer "
            "tuple_union_theta_double tuple_union_theta_integer variant_set"
        ),
        (0, 5): ("mask"),
        (0, 7): ("make_interval"),
        (0, None): (
            "array arrays_zip concat current_date current_path current_time current_timestamp "
            "current_user grouping_id localtime map map_concat named_struct session_user "
            "struct user"
        ),
        (1, 1): (
            "abs acos acosh array_compact array_distinct array_max array_min array_size ascii "
            "asin asinh atan atanh base64 bigint bin binary bit_count bit_length "
            "bitmap_bit_position bitmap_bucket_number bitmap_count boolean cardinality cbrt "
            "char char_length character_length chr collation cos cosh cot crc32 csc date "
            "date_from_unix_date day dayname dayofmonth dayofweek dayofyear decimal degrees "
            "double exp expm1 factorial flatten float from_base32 grouping hex "
            "hll_sketch_estimate hour initcap int is_valid_utf8 is_valid_variant "
            "is_variant_null isnan isnotnull isnull json_array_length json_object_keys "
            "kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
            "kll_sketch_to_string_bigint kll_sketch_to_string_double "
            "kll_sketch_to_string_float last_day lcase len length ln log10 log1p log2 lower "
            "luhn_check make_valid_utf8 map_entries map_from_entries map_keys map_values md5 "
            "minute month monthname negative nullifzero octet_length parse_json positive "
            "quarter quote radians raise_error reverse rint schema_of_variant sec second sha "
            "sha1 sign signum sin sinh size smallint soundex space sqrt st_geogfromwkb "
            "st_srid string tan tanh theta_sketch_estimate time time_from_micros "
            "time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds "
            "timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds "
            "tinyint to_base32 to_variant_object try_parse_json try_url_decode "
            "try_validate_utf8 tuple_sketch_estimate_double tuple_sketch_estimate_integer "
            "tuple_sketch_theta_double tuple_sketch_theta_integer typeof ucase unbase64 unhex "
            "unix_date unix_micros unix_millis unix_nanos unix_seconds upper url_decode "
            "url_encode validate_utf8 vector_avg vector_sum weekday weekofyear window_time "
            "year zeroifnull"
        ),
        (1, 2): (
            "approx_top_k_estimate array_sort assert_true bround btrim ceil ceiling floor "
            "from_unixtime log ltrim randstr round rtrim schema_of_avro schema_of_csv "
            "schema_of_json schema_of_xml shuffle sort_array st_asbinary st_geomfromwkb "
            "to_avro to_binary to_csv to_date to_json to_time to_timestamp to_timestamp_ltz "
            "to_timestamp_ntz to_unix_timestamp to_xml trim try_to_binary try_to_date "
            "try_to_time try_to_timestamp tuple_sketch_summary_double "
            "tuple_sketch_summary_integer vector_norm vector_normalize"
        ),
        (1, 3): ("sentences str_to_map"),
        (1, 7): ("make_timestamp try_make_interval try_make_timestamp"),
        (1, None): ("coalesce concat_ws format_string hash printf xxhash64"),
        (2, 2): (
            "add_months array_append array_contains array_except array_intersect "
            "array_position array_prepend array_remove array_repeat array_union "
            "arrays_overlap atan2 bit_get collate contains date_format date_part date_sub "
            "date_trunc datepart div element_at encode endswith equal_null exists extract "
            "filter find_in_set forall format_number from_utc_timestamp get get_json_object "
            "getbit hypot ifnull jaro_winkler_similarity kll_sketch_get_quantile_bigint "
            "kll_sketch_get_quantile_double kll_sketch_get_quantile_float "
            "kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float "
            "kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float left "
            "map_contains_key map_filter map_from_arrays mod nanvl next_day nullif nvl pmod "
            "pow power regexp regexp_count regexp_like regexp_substr repeat right rlike "
            "session_window sha2 shiftleft shiftright shiftrightunsigned st_setsrid "
            "startswith theta_difference theta_intersection time_trunc to_char to_number "
            "to_utc_timestamp to_varchar transform transform_keys transform_values trunc "
            "try_add try_divide try_element_at try_mod try_multiply try_subtract "
            "try_to_number tuple_difference_double tuple_difference_integer "
            "tuple_difference_theta_double tuple_difference_theta_integer "
            "vector_cosine_similarity vector_inner_product vector_l2_distance xpath "
            "xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number "
            "xpath_short xpath_string"
        ),
        (2, 3): (
            "array_join convert_timezone date_add date_diff dateadd datediff from_avro "
            "from_csv from_json from_xml hll_union hmac ilike levenshtein like locate lpad "
            "months_between parse_url position regexp_extract regexp_extract_all regexp_instr "
            "replace rpad sequence split substr substring theta_union time_bucket "
            "try_parse_url try_variant_get tuple_intersection_double "
            "tuple_intersection_integer tuple_intersection_theta_double "
            "tuple_intersection_theta_integer uniform variant_get"
        ),
        (2, 4): ("from_protobuf instr to_protobuf window"),
        (2, 5): ("aes_decrypt try_aes_decrypt"),
        (2, 6): ("aes_encrypt make_timestamp_ntz try_make_timestamp_ntz"),
        (2, 7): ("make_timestamp_ltz try_make_timestamp_ltz"),
        (2, None): (
            "decode elt greatest java_method json_tuple least reflect stack try_reflect "
            "variant_delete"
        ),
        (3, 3): (
            "array_insert conv if make_date make_time map_zip_with nvl2 slice split_part "
            "substring_index time_diff timestampadd timestampdiff translate "
            "try_variant_array_append try_variant_insert variant_array_append variant_insert "
            "zip_with"
        ),
        (3, 4): ("aggregate overlay reduce regexp_replace"),
        (4, 4): ("width_bucket"),
    }.items()
    for name in names.split()
}
"""Scalar functions and generators: the least and the greatest number of arguments; None for no limit."""
_AGGREGATES: Final = (
    "any any_value approx_count_distinct approx_percentile approx_top_k "
    "approx_top_k_accumulate approx_top_k_combine array_agg avg bit_and bit_or "
    "bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or "
    "collect_list collect_set collect_union corr count count_if count_min_sketch "
    "covar_pop covar_samp every first first_value histogram_numeric hll_sketch_agg "
    "hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float "
    "kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last "
    "last_value listagg max max_by mean measure median min min_by mode percentile "
    "percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count "
    "regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy "
    "schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg "
    "sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum "
    "tuple_intersection_agg_double tuple_intersection_agg_integer "
    "tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double "
    "tuple_union_agg_integer var_pop var_samp variance"
)
AGGREGATES: Final = frozenset(_AGGREGATES.split())
"""Aggregate functions."""
_WINDOW_FUNCTIONS: Final = (
    "counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank " "row_number"
)
WINDOW_FUNCTIONS: Final = frozenset(_WINDOW_FUNCTIONS.split())
"""Functions that need OVER."""
