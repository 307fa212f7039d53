"""A wrapper of a class without `retract`, which keeps the live rows of a key.

Its state is the state of the class, the live rows with their counts, and a flag that the first must be computed again.
A new row is accumulated at once. After a retraction or a merge, the next result accumulates all live rows again from
`create`; equal rows follow one another, at the position of the first.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from aggloom.codegen.user.source import CHANGES, MARK, ROWS

_OWN = ("create", "accumulate", "value", ROWS, "merge", CHANGES, MARK)
"""Methods of the user's class, which the wrapper renames."""
_WORDS = frozenset(
    ("state", "other", "row", "count", "change", "values", "folded", "repr", "range")
)
# The key of a row is its repr: values may be lists, which are no keys of a dict, and NaN is equal to itself there.
_METHODS = """
def create():
    return [{name}.{create}(), {{}}, False]

def accumulate(state, {arguments}):
    if {name}.{count_row}(state, 1, {arguments}) <= 0:
        {name}.{note_change}(state)
    elif not state[2]:
        {name}.{fold_row}(state, {arguments})

def retract(state, {arguments}):
    {name}.{count_row}(state, -1, {arguments})
    {name}.{note_change}(state)

def merge(state, other):
    for count, values in other[1].values():
        {name}.{count_row}(state, count, *values)
    {name}.{note_change}(state)

def {result}(state):
    if state[2]:
        state[0], state[2] = {name}.create()[0], False
        for count, values in state[1].values():
            for _ in range(count):
                {name}.{fold_row}(state, *values)
    return {name}.{read}(state[0])

def {count_row}(state, change, {arguments}):
    row = repr(({arguments}))
    count = change + state[1].get(row, (0,))[0]
    if count:
        state[1][row] = (count, ({arguments}))
    else:
        state[1].pop(row, None)
    return count

def {note_change}(state):
    if state[1]:
        state[2] = True
    else:
        state[0], state[2] = {name}.create()[0], False

def {fold_row}(state, {arguments}):
    folded = {name}.{accumulate}(state[0], {arguments})
    if folded is not None:
        state[0] = folded
"""


def keep_live_rows(tree: ast.Module, arguments: Sequence[str], result: str) -> None:
    """Replace the methods that add rows and read results of the class of a source by those that keep live rows.

    arguments: their names. result: the name of the method that returns the result.
    """
    (owner,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    names_in_use = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names_in_use |= {part.attr for part in ast.walk(tree) if isinstance(part, ast.Attribute)}
    # The user's methods stay in the class under other names, and the new methods get their names.
    renamed = {name: _free_name(f"own_{name}", names_in_use) for name in _OWN}
    _Renaming(owner.name, renamed).visit(owner)
    # An argument must not hide a name that the methods use.
    outside = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {owner.name}
    named = [
        (
            f"value_{name}"
            if name in _WORDS | outside - set(arguments) or name.startswith("user_")
            else name
        )
        for name in arguments
    ]
    text = _METHODS.format(
        name=owner.name,
        arguments=" ".join(f"{name}," for name in named),
        create=renamed["create"],
        accumulate=renamed["accumulate"],
        read=renamed[result],
        result=result,
        count_row=_free_name("count_row", names_in_use),
        note_change=_free_name("note_change", names_in_use),
        fold_row=_free_name("fold_row", names_in_use),
    )
    owner.body += ast.parse(text).body


def _free_name(name: str, names_in_use: set[str]) -> str:
    while name in names_in_use:
        name += "_"
    return name


class _Renaming(ast.NodeTransformer):
    """Renames the methods of a class, also where they call each other."""

    def __init__(self, owner: str, renamed: dict[str, str]) -> None:
        self.owners, self.renamed = (owner, "self"), renamed

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.renamed.get(node.name, node.name)
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.owners:
            node.attr = self.renamed.get(node.attr, node.attr)
        return self.generic_visit(node)
