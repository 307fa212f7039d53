"""The scalar functions of Spark's that do not run without a session, each with its reason and a way around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple


class Reason(NamedTuple):
    """Functions that are Spark's alone: why, and what to write."""

    names: str
    why: str
    fix: str


REASONS: Final = (
    Reason(
        "rand randn random randstr uniform uuid shuffle",
        "a value drawn anew is another one when a row is taken back, or a batch runs again; refused with a session too",
        "draw it where the row is made, as a column of the input; `md5(key)` or `xxhash64(key)` are as good as random",
    ),
    Reason(
        "monotonically_increasing_id spark_partition_id input_file_name input_file_block_start "
        "input_file_block_length",
        "they say where Spark happens to read a row; refused with a session too",
        "a column of the input",
    ),
    Reason(
        "current_catalog current_database current_path current_schema current_user session_user user version",
        "they name the session, which another run may not have; refused with a session too",
        "a literal",
    ),
    Reason(
        "java_method reflect try_reflect",
        "they call a method of Java; refused with a session too",
        "a [function of your own](user-functions.md)",
    ),
    Reason(
        "aes_encrypt aes_decrypt try_aes_decrypt",
        "the ciphers are Java's, and an encryption draws at random",
        "a session for decryption; encrypt before or after the query",
    ),
    Reason(
        "from_xml to_xml schema_of_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long "
        "xpath_number xpath_short xpath_string",
        "the parsers of XML are Java's",
        "a session",
    ),
    Reason(
        "from_avro to_avro schema_of_avro from_protobuf to_protobuf",
        "they are packages of Spark's own",
        "the [format](formats.md) of a source or sink, where Avro is read and written",
    ),
    Reason(
        "sentences", "what ends a sentence is Java's knowledge of languages", "`split` by a pattern"
    ),
    Reason("collate", "texts are compared by their bytes", "`lower(s)`, or a session"),
    Reason(
        "timestamp_nanos unix_nanos",
        "times have six digits behind the second",
        "`timestamp_micros`, `unix_micros`",
    ),
)

_DRAWN: Final = (
    "drawn anew each time, and a retraction could not match; draw it where the row is made"
)
OF_FLINK: Final = {
    **dict.fromkeys(("RAND", "RAND_INTEGER", "UUID"), _DRAWN),
    **dict.fromkeys(
        ("CURRENT_TIME", "LOCALTIME"),
        "with parentheses it is the time of day, without it is a column",
    ),
    "CURRENT_DATABASE": "it names the session; write a literal",
    "CURRENT_WATERMARK": "windows drop late rows; `NOW()` in WHERE lets rows leave by the clock",
    "GROUP_ID": "write `GROUPING_ID()`",
}
"""The reason, or what to write, for each of Flink's functions that does not run."""


def lines() -> Iterator[str]:
    """The list as a table in Markdown."""
    yield "| functions | why | what to write |"
    yield "| --- | --- | --- |"
    for reason in REASONS:
        names = ", ".join(f"`{name}`" for name in reason.names.split())
        yield f"| {names} | {reason.why} | {reason.fix} |"
