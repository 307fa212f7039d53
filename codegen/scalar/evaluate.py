"""Scalar SQL by Arrow's kernels: Spark's answers (ANSI mode) for the everyday subset.

Three-valued logic, NaN equal to itself and above all numbers, errors instead of wrapped integers,
and branches of CASE evaluated only on their own rows. Anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from aggloom.codegen.scalar.arrow_arithmetic import arithmetic, cast, negate
from aggloom.codegen.scalar.result_types import Types, common, infer, unsupported
from aggloom.codegen.spec.dtypes import parse_type, type_name
from aggloom.errors import ArithmeticOverflowError

NEEDS_SPARK = "is outside what runs without Spark; give the harness a Spark session."

_Rule = Callable[[Any, pa.RecordBatch], pa.Array]
_Kernel = Callable[[pa.Array], pa.Array]


def evaluate_node(node: exp.Expression, batch: pa.RecordBatch) -> pa.Array:
    """The value of a parsed expression for every row, of the type that `infer` tells."""
    dtype = infer(node, _types(batch))
    value = _value(node, batch)
    return value if value.type == dtype else cast(value, dtype, node)


def _types(batch: pa.RecordBatch) -> Types:
    return dict(zip(batch.schema.names, batch.schema.types, strict=True))


def _value(node: exp.Expression, batch: pa.RecordBatch) -> pa.Array:
    rule = next((_RULES[kind] for kind in type(node).__mro__ if kind in _RULES), None)
    used = {key for key, value in node.args.items() if value}
    if rule is None or not used <= _ARGUMENTS:
        raise unsupported(node, NEEDS_SPARK)
    try:
        value = rule(node, batch)
    except pa.ArrowInvalid as error:
        text = f"expression {node.sql('spark')}: {error}; cast to a wider type or filter the rows."
        raise ArithmeticOverflowError(text) from None
    except pa.ArrowNotImplementedError:
        raise unsupported(node, NEEDS_SPARK) from None
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def _column(node: exp.Column, batch: pa.RecordBatch) -> pa.Array:
    return batch.column(node.name)


def _constant(node: exp.Expression, batch: pa.RecordBatch) -> pa.Array:
    dtype = infer(node, {})
    if isinstance(node, exp.Null):
        return pa.nulls(batch.num_rows)
    if isinstance(node, exp.Boolean):
        return pa.repeat(pa.scalar(bool(node.this)), batch.num_rows)
    text = pa.scalar(node.this)
    value = text if dtype == pa.string() else pa.scalar(node.this).cast(dtype)
    return pa.repeat(value, batch.num_rows)


def _inner(node: exp.Expression, batch: pa.RecordBatch) -> pa.Array:
    return _value(node.this, batch)


def _cast(node: exp.Cast, batch: pa.RecordBatch) -> pa.Array:
    if node.sql("spark").startswith("TRY_"):
        raise unsupported(node, NEEDS_SPARK)
    return cast(_value(node.this, batch), parse_type(node.to.sql("spark")), node)


def _binary_arithmetic(node: exp.Binary, batch: pa.RecordBatch) -> pa.Array:
    dtype = infer(node, _types(batch))
    return arithmetic(node, _value(node.left, batch), _value(node.right, batch), dtype)


def _negate(node: exp.Neg, batch: pa.RecordBatch) -> pa.Array:
    return negate(_value(node.this, batch))


def _abs(node: exp.Abs, batch: pa.RecordBatch) -> pa.Array:
    return pc.abs_checked(_value(node.this, batch))


def _logic(kernel: str) -> _Rule:
    def rule(node: exp.Binary, batch: pa.RecordBatch) -> pa.Array:
        sides = [_boolean(_value(side, batch), side) for side in (node.left, node.right)]
        return pc.call_function(kernel, sides)

    return rule


def _not(node: exp.Not, batch: pa.RecordBatch) -> pa.Array:
    return pc.invert(_boolean(_value(node.this, batch), node.this))


def _boolean(value: pa.Array, node: exp.Expression) -> pa.Array:
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if value.type != pa.bool_():
        raise unsupported(node, f"is {type_name(value.type)} where a BOOLEAN is needed.")
    return value


def _is(node: exp.Is, batch: pa.RecordBatch) -> pa.Array:
    value = _value(node.this, batch)
    if isinstance(node.expression, exp.Null):
        return pc.is_null(value)
    if isinstance(node.expression, exp.Boolean):
        wanted = bool(node.expression.this)
        return pc.equal(_boolean(value, node.this), pa.scalar(wanted)).fill_null(False)
    raise unsupported(node, NEEDS_SPARK)


def _compare(node: exp.Binary, batch: pa.RecordBatch) -> pa.Array:
    left, right = _aligned([node.left, node.right], node, batch)
    if isinstance(node, exp.EQ):
        return _equal(left, right)
    if isinstance(node, exp.NEQ):
        return pc.invert(_equal(left, right))
    if isinstance(node, exp.NullSafeEQ):
        return _same(left, right)
    if isinstance(node, exp.NullSafeNEQ):
        return pc.invert(_same(left, right))
    if isinstance(node, exp.LT):
        return _less(left, right)
    if isinstance(node, exp.GT):
        return _less(right, left)
    return pc.invert(_less(right, left) if isinstance(node, exp.LTE) else _less(left, right))


def _aligned(
    nodes: list[exp.Expression], node: exp.Expression, batch: pa.RecordBatch
) -> list[pa.Array]:
    """The values of several expressions, brought to the type in which they can be compared."""
    values = [_value(each, batch) for each in nodes]
    types = [value.type for value in values]
    # A text literal beside another type is that type, spelled out: d > '2020-01-01'.
    solid = [t for t in types if t != pa.string()]
    mixed = pa.string() in types and any(not pa.types.is_null(t) for t in solid)
    target = common(solid if mixed else types, node)
    return [value if value.type == target else cast(value, target, node) for value in values]


def _equal(left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_null(left.type):
        return pa.nulls(len(left), pa.bool_())
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return equal


def _less(left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_null(left.type):
        return pa.nulls(len(left), pa.bool_())
    if left.type == pa.bool_():
        return pc.and_(pc.invert(left), right)
    less = pc.less(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    return less


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(_equal(left, right).fill_null(False), both)


def _in(node: exp.In, batch: pa.RecordBatch) -> pa.Array:
    if node.args.get("query") or not node.expressions:
        raise unsupported(node, NEEDS_SPARK)
    wanted, *options = _aligned([node.this, *node.expressions], node, batch)
    result = _equal(wanted, options[0])
    for option in options[1:]:
        result = pc.or_kleene(result, _equal(wanted, option))
    return result


def _between(node: exp.Between, batch: pa.RecordBatch) -> pa.Array:
    nodes = [node.this, node.args["low"], node.args["high"]]
    value, low, high = _aligned(nodes, node, batch)
    return pc.and_kleene(pc.invert(_less(value, low)), pc.invert(_less(high, value)))


def _like(node: exp.Like, batch: pa.RecordBatch) -> pa.Array:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise unsupported(node, NEEDS_SPARK)
    matched = pc.match_like(cast(_value(node.this, batch), pa.string(), node), pattern.this)
    return pc.invert(matched) if node.args.get("negate") else matched


def _case(node: exp.Case, batch: pa.RecordBatch) -> pa.Array:
    subject = node.this
    arms = []
    for branch in node.args["ifs"]:
        when = branch.this
        if subject is not None:
            when = exp.EQ(this=subject.copy(), expression=when.copy())
        arms.append((when, branch.args["true"]))
    return _choose(arms, node.args.get("default"), node, batch)


def _if(node: exp.If, batch: pa.RecordBatch) -> pa.Array:
    return _choose([(node.this, node.args["true"])], node.args.get("false"), node, batch)


def _nullif(node: exp.Nullif, batch: pa.RecordBatch) -> pa.Array:
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    return _choose([(equal, exp.null())], node.this, node, batch)


def _coalesce(node: exp.Coalesce, batch: pa.RecordBatch) -> pa.Array:
    options = [node.this, *node.expressions]
    arms = [
        (exp.Not(this=exp.Is(this=each.copy(), expression=exp.null())), each) for each in options
    ]
    return _choose(arms, None, node, batch)


def _choose(
    arms: list[tuple[exp.Expression, exp.Expression]],
    default: exp.Expression | None,
    node: exp.Expression,
    batch: pa.RecordBatch,
) -> pa.Array:
    """The first arm whose condition holds, each arm evaluated only on the rows that reach it."""
    dtype = infer(node, _types(batch))
    open_rows = np.arange(batch.num_rows)
    rows: list[np.ndarray[Any, Any]] = []
    parts: list[pa.Array] = []
    for condition, result in [*arms, (exp.true(), exp.null() if default is None else default)]:
        reached = batch.take(pa.array(open_rows))
        truth = _boolean(_value(condition, reached), condition).fill_null(False)
        chosen = truth.to_numpy(zero_copy_only=False).astype(bool)
        taken = reached.filter(pa.array(chosen))
        parts.append(cast(_value(result, taken), dtype, node))
        rows.append(open_rows[chosen])
        open_rows = open_rows[~chosen]
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.chunked_array(parts, dtype).combine_chunks().take(pa.array(order))


def _text(kernel: _Kernel) -> _Rule:
    def rule(node: exp.Expression, batch: pa.RecordBatch) -> pa.Array:
        return kernel(cast(_value(node.this, batch), pa.string(), node))

    return rule


def _cased(kernel: _Kernel, by_hand: Callable[[str], str]) -> _Kernel:
    def convert(texts: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
            return kernel(texts)
        # Arrow maps one code point to one; Spark, like Python, makes "SS" of "ß".
        return pa.array([None if t is None else by_hand(t) for t in texts.to_pylist()], pa.string())

    return convert


def _length(node: exp.Length, batch: pa.RecordBatch) -> pa.Array:
    value = _value(node.this, batch)
    if value.type == pa.binary():
        return pc.binary_length(value)
    return pc.utf8_length(cast(value, pa.string(), node))


def _concat(node: exp.Expression, batch: pa.RecordBatch) -> pa.Array:
    pieces = [node.left, node.right] if isinstance(node, exp.DPipe) else node.expressions
    texts = [cast(_value(piece, batch), pa.string(), node) for piece in pieces]
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _substring(node: exp.Substring, batch: pa.RecordBatch) -> pa.Array:
    value = cast(_value(node.this, batch), pa.string(), node)
    start = _integer(node.args.get("start"), node)
    length = None if node.args.get("length") is None else _integer(node.args["length"], node)
    if start >= 0:
        first = max(start - 1, 0)
        return pc.utf8_slice_codeunits(
            value, first, None if length is None else first + max(length, 0)
        )
    # A start before the text eats into the length, as Spark's does, so it depends on each row.
    texts = [None if t is None else _from_end(t, start, length) for t in value.to_pylist()]
    return pa.array(texts, pa.string())


def _from_end(text: str, start: int, length: int | None) -> str:
    first = len(text) + start
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def _integer(node: exp.Expression | None, whole: exp.Expression) -> int:
    negative = isinstance(node, exp.Neg)
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal) or literal.is_string or not literal.this.isdigit():
        raise unsupported(whole, NEEDS_SPARK)
    return -int(literal.this) if negative else int(literal.this)


def _trim(node: exp.Trim, batch: pa.RecordBatch) -> pa.Array:
    if node.args.get("expression") or node.args.get("position"):
        raise unsupported(node, NEEDS_SPARK)
    return pc.utf8_trim(cast(_value(node.this, batch), pa.string(), node), " ")


# A syntax tree that carries more than these says something that no rule below looks at.
_ARGUMENTS: Final = frozenset(
    {"this", "expression", "expressions", "to", "low", "high", "ifs", "default", "true", "false"}
    | {"start", "length", "safe", "typed", "coalesce", "is_string", "negate", "is_nvl", "is_null"}
)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_RULES: Final[dict[type, _Rule]] = {
    exp.Column: _column,
    **dict.fromkeys((exp.Literal, exp.Null, exp.Boolean), _constant),
    **dict.fromkeys((exp.Paren, exp.Alias), _inner),
    exp.Cast: _cast,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _binary_arithmetic),
    exp.Neg: _negate,
    exp.Abs: _abs,
    exp.And: _logic("and_kleene"),
    exp.Or: _logic("or_kleene"),
    exp.Not: _not,
    exp.Is: _is,
    **dict.fromkeys((*_COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ), _compare),
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Case: _case,
    exp.If: _if,
    exp.Nullif: _nullif,
    exp.Coalesce: _coalesce,
    exp.Upper: _text(_cased(pc.ascii_upper, str.upper)),
    exp.Lower: _text(_cased(pc.ascii_lower, str.lower)),
    exp.Length: _length,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Substring: _substring,
    exp.Trim: _trim,
}
