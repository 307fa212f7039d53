"""Spark's functions whose result has the same type whatever their arguments, by that type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from aggloom.codegen.spec.dtypes import INSTANT, TIME_OF_DAY, WALL_CLOCK

FIXED: Final = {
    pa.string(): (
        "base64 bin btrim char chr collation concat_ws conv current_timezone date_format dayname "
        "format_number format_string from_unixtime get_json_object hex initcap lcase lower ltrim "
        "make_valid_utf8 mask md5 monthname parse_url printf quote regexp_extract regexp_replace "
        "regexp_substr repeat replace rtrim schema_of_csv schema_of_json sha sha1 sha2 soundex space "
        "split_part string substring_index to_base32 to_char to_csv to_json to_varchar translate trim "
        "try_parse_url try_url_decode try_validate_utf8 typeof ucase upper url_decode url_encode "
        "validate_utf8 xpath_string array_join"
    ),
    pa.int32(): (
        "array_size ascii bit_count bit_length cardinality char_length character_length day dayofmonth dayofweek "
        "dayofyear find_in_set hash hour instr int json_array_length len length levenshtein locate minute month "
        "octet_length position quarter regexp_count regexp_instr second size unix_date weekday weekofyear year "
        "xpath_int"
    ),
    pa.int64(): (
        "array_position bigint bitmap_bit_position bitmap_bucket_number bitmap_count crc32 div factorial "
        "time_diff time_to_micros time_to_millis to_unix_timestamp unix_micros unix_millis unix_seconds "
        "unix_timestamp xpath_long xxhash64"
    ),
    pa.int8(): "bit_get getbit tinyint",
    pa.int16(): "smallint xpath_short",
    pa.float32(): "float xpath_float",
    pa.float64(): (
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc degrees double e exp expm1 hypot "
        "jaro_winkler_similarity ln log log10 log1p log2 months_between pi pow power radians rint sec sign signum sin "
        "sinh sqrt tan tanh xpath_double xpath_number"
    ),
    pa.bool_(): (
        "array_contains arrays_overlap boolean contains endswith equal_null exists forall ilike is_valid_utf8 isnan "
        "isnotnull isnull like luhn_check map_contains_key regexp regexp_like rlike startswith xpath_boolean"
    ),
    pa.binary(): (
        "aes_decrypt binary encode from_base32 hmac to_binary try_aes_decrypt try_to_binary unbase64 unhex"
    ),
    pa.date32(): (
        "add_months date date_from_unix_date date_sub last_day make_date next_day to_date trunc try_to_date"
    ),
    INSTANT: (
        "date_trunc from_utc_timestamp make_timestamp make_timestamp_ltz timestamp timestamp_micros "
        "timestamp_millis timestamp_seconds to_timestamp to_timestamp_ltz to_utc_timestamp "
        "try_make_timestamp try_make_timestamp_ltz try_to_timestamp"
    ),
    WALL_CLOCK: "convert_timezone make_timestamp_ntz to_timestamp_ntz try_make_timestamp_ntz",
    TIME_OF_DAY: (
        "make_time time time_from_micros time_from_millis time_from_seconds time_trunc to_time try_to_time"
    ),
    pa.decimal128(10, 0): "decimal",
    pa.decimal128(14, 6): "time_to_seconds",
    pa.null(): "assert_true raise_error",
    pa.list_(pa.string()): "json_object_keys regexp_extract_all split xpath",
    pa.list_(pa.list_(pa.string())): "sentences",
    pa.map_(pa.string(), pa.string()): "str_to_map",
}
