"""Texts and bytes: encodings, character sets, hashes, and addresses on the web."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from aggloom.codegen.scalar.entry import arguments, by_row, call_by_row, entry, literal_text
from aggloom.codegen.scalar.lowered_expression import LoweredExpression, call
from aggloom.codegen.scalar.lowering import NEEDS_SPARK, ExpressionLowering, LoweringEntry, Rule
from aggloom.codegen.scalar.operand_types import unsupported_error
from aggloom.codegen.scalar.promotion import is_number
from aggloom.codegen.scalar.shorthand import decode
from aggloom.codegen.spec.dtypes import INSTANT, WALL_CLOCK

_TEXT: Final = pa.string()
_BYTES: Final = pa.binary()
_INT: Final = pa.int32()
_BIG: Final = pa.int64()
_CHARSETS: Final = (
    *("US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32"),
)
_PARTS: Final = (*("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "AUTHORITY", "FILE", "USERINFO"),)


def _hex(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    (operand,) = arguments(node)
    value = low.lower(operand)
    if is_number(value.type):
        # HEX of a number shows its 64 bits, of a text its bytes.
        return call_by_row("encodings.hex_of_number", _TEXT, [low.cast(value, _BIG, node)], node)
    return call_by_row("encodings.hex_of_bytes", _TEXT, [low.cast(value, _BYTES, node)], node)


def _lower_codec(function: str, source: pa.DataType, result: pa.DataType) -> Rule:
    """ENCODE and DECODE by a character set that is a literal."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        if len(node.expressions) != 2:
            raise unsupported_error(node, NEEDS_SPARK)
        operand, charset = node.expressions
        if literal_text(charset, node).upper() not in _CHARSETS:
            raise unsupported_error(node, NEEDS_SPARK)
        value = low.lower(operand)
        if value.type not in (_TEXT, _BYTES):
            raise unsupported_error(node, NEEDS_SPARK)
        values = [low.cast(value, source, node), low.lower(charset)]
        return call_by_row(function, result, values, node, raises=True)

    return rule


def _to_binary(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    """TO_BINARY and TRY_TO_BINARY."""
    operand, *kinds = node.expressions
    kind = literal_text(kinds[0], node).lower() if kinds else "hex"
    value = low.text(operand)
    if kind in ("utf-8", "utf8"):
        return low.cast(value, _BYTES, node)
    function = {"hex": "encodings.hex_to_bytes", "base64": "encodings.base64_to_bytes"}.get(kind)
    if function is None:
        raise unsupported_error(node, NEEDS_SPARK)
    if node.name.lower() == "try_to_binary":
        # Each of these functions has a twin try_..., which gives NULL for an error.
        function = function.replace(".", ".try_")
        return call_by_row(function, _BYTES, [value], node)
    return call_by_row(function, _BYTES, [value], node, raises=True)


def _url_part(function: str, raises: bool) -> Rule:
    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        if literal_text(node.expressions[1], node) not in _PARTS:
            raise unsupported_error(node, NEEDS_SPARK)
        # Spark puts the key of a query into a pattern as it stands, so that other characters mean something.
        if len(node.expressions) > 2 and not literal_text(node.expressions[2], node).isalnum():
            raise unsupported_error(node, NEEDS_SPARK)
        values = [low.text(each) for each in node.expressions]
        return call_by_row(function, _TEXT, values, node, raises=raises)

    return rule


def _hash_code(function: str) -> Rule:
    """HASH and XXHASH64, which have no maps, and times only as they are."""

    def rule(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
        values = [low.lower(each) for each in node.expressions]
        if not all(_has_hash(each.type) for each in values):
            raise unsupported_error(node, NEEDS_SPARK)
        places = ", ".join(f"{{{place}}}" for place in range(len(values)))
        dtype = _INT if function == "hash_32" else _BIG
        return call(f"scalar.hash_codes.{function}({places})", dtype, *values)

    return rule


def _has_hash(dtype: pa.DataType, nested: bool = False) -> bool:
    if pa.types.is_list(dtype):
        return _has_hash(dtype.value_type, nested=True)
    if pa.types.is_struct(dtype):
        return all(_has_hash(field.type, nested=True) for field in dtype)
    plain = dtype in (_TEXT, _BYTES, pa.bool_(), pa.null()) or is_number(dtype)
    return plain or (not nested and dtype in (pa.date32(), INSTANT, WALL_CLOCK))


def _keyed_hash(low: ExpressionLowering, node: exp.Anonymous) -> LoweredExpression:
    key, message, *algorithm = node.expressions
    if algorithm and literal_text(algorithm[0], node) not in _KEYED:
        raise unsupported_error(node, NEEDS_SPARK)
    values = [low.as_type(key, _BYTES), low.as_type(message, _BYTES), *map(low.lower, algorithm)]
    return call_by_row("hashes.keyed_hash", _BYTES, values, node)


_KEYED: Final = ("SHA1", "SHA224", "SHA256", "SHA384", "SHA512")
_URL: Final = "'https://me@example.com:8080/a/b?q=1&r=x%20y#top'"
ENTRIES: Final[tuple[LoweringEntry, ...]] = (
    entry("hex", ("hex(i)", "hex(s)", "hex(y)"), _hex),
    entry("unhex", ("unhex('4A5')", "unhex(s)"), by_row("encodings.unhex", _BYTES, _TEXT)),
    entry("base64", ("base64(y)", "base64(s)"), by_row("encodings.base64_of", _TEXT, _BYTES)),
    entry(
        "unbase64",
        ("unbase64('YWI=')", "unbase64('YW I')"),
        by_row("encodings.unbase64", _BYTES, _TEXT, raises=True),
    ),
    entry(
        ("to_binary", "try_to_binary"),
        (
            "to_binary('4A5B', 'hex')",
            "to_binary(s, 'utf-8')",
            "to_binary('YWI=', 'base64')",
            "try_to_binary(s, 'hex')",
            "try_to_binary(s, 'base64')",
        ),
        _to_binary,
    ),
    entry(
        "encode",
        ("encode(s, 'utf-8')", "encode(t, 'UTF-16BE')", "encode(t, 'UTF-16')"),
        _lower_codec("encodings.encode", _TEXT, _BYTES),
    ),
    entry(
        "decode",
        (
            "decode(i, 1, 'one', NULL, 'none', 'more')",
            "decode(s, 'abc', 1)",
            "decode(y, 'ISO-8859-1')",
            "decode(encode(s, 'UTF-16'), 'UTF-16')",
        ),
        decode(_lower_codec("encodings.decode", _BYTES, _TEXT)),
    ),
    entry("crc32", ("crc32(y)", "crc32(s)"), by_row("hashes.crc32", _BIG, _BYTES)),
    entry("md5", ("md5(y)", "md5(s)"), by_row("hashes.md5", _TEXT, _BYTES)),
    entry(("sha", "sha1"), ("sha(y)", "sha1(s)"), by_row("hashes.sha1", _TEXT, _BYTES)),
    entry(
        "sha2",
        ("sha2(s, 256)", "sha2(y, 0)", "sha2(s, 512)", "sha2(s, 1)"),
        by_row("hashes.sha2", _TEXT, _BYTES, _INT),
    ),
    entry(
        "hash",
        (
            *("hash(i, s, NULL, p)", "hash(b, l, r, f)", "hash(y, d, n, w)"),
            *("hash(m, n9, x38)", "hash(a, c, z, e)", "hash(repeat(s, 9), t)"),
        ),
        _hash_code("hash_32"),
    ),
    entry(
        "xxhash64",
        (
            *("xxhash64(i, s, NULL, p)", "xxhash64(b, l, r, f)", "xxhash64(y, d, n, w)"),
            *(
                "xxhash64(m, n9, x38)",
                "xxhash64(a, c, z, e)",
                "xxhash64(repeat(s, 9), repeat(t, 20))",
            ),
        ),
        _hash_code("hash_64"),
    ),
    entry(
        "hmac",
        ("hmac(t || 'k', s)", "hmac('key', y, 'SHA512')", "hmac('k', s, 'SHA1')"),
        _keyed_hash,
    ),
    entry(
        "to_base32", ("to_base32(s)", "to_base32(y)"), by_row("encodings.base32_of", _TEXT, _BYTES)
    ),
    entry(
        "from_base32",
        ("from_base32(to_base32(s))", "from_base32(s)", "from_base32('mFrG ggz')"),
        by_row("encodings.base32_to_bytes", _BYTES, _TEXT),
    ),
    entry("url_encode", "url_encode(s)", by_row("urls.url_encode", _TEXT, _TEXT)),
    entry(
        "url_decode",
        ("url_decode(url_encode(s))", "url_decode('a%20b+%C3%BC')"),
        by_row("urls.url_decode", _TEXT, _TEXT, raises=True),
    ),
    entry(
        "try_url_decode",
        ("try_url_decode(t)", "try_url_decode('a%2')"),
        by_row("urls.try_url_decode", _TEXT, _TEXT),
    ),
    entry(
        "parse_url",
        (*(f"parse_url({_URL}, '{part}')" for part in _PARTS), f"parse_url({_URL}, 'QUERY', 'r')"),
        _url_part("urls.url_part", True),
    ),
    entry(
        "try_parse_url",
        (f"try_parse_url({_URL}, 'HOST')", "try_parse_url(s, 'PATH')"),
        _url_part("urls.try_url_part", False),
    ),
)
