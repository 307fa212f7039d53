"""The check that a function is in the catalogue, which calls make of themselves."""

from __future__ import annotations

from aggloom.codegen.catalogue import registry as catalogue
from aggloom.errors import UnknownFunctionError, nearest


def check_function(function: str, where: str) -> None:
    """The function is in the catalogue; a refused one comes with the reason."""
    if catalogue.find(function) is not None:
        return
    function = catalogue.canonical(function)
    if function in catalogue.REFUSED:
        reason = catalogue.REFUSED[function]
        raise UnknownFunctionError(f"{where}: {function} is not a grouped aggregate here: {reason}")
    hint = nearest(function, catalogue.list_functions())
    raise UnknownFunctionError(f"{where}: there is no aggregate function {function}. {hint}")
