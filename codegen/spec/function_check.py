"""The check that the function of a call exists."""

from __future__ import annotations

from aggloom.codegen.catalogue import registry as catalogue
from aggloom.errors import UnknownFunctionError, nearest


def check_function(function: str, where: str) -> None:
    """Raise UnknownFunctionError unless the function is in the catalogue; of a refused one with the reason."""
    if catalogue.find(function) is not None:
        return
    function = catalogue.canonical(function)
    if function in catalogue.REFUSED:
        reason = catalogue.REFUSED[function]
        raise UnknownFunctionError(f"{where}: {function} is not a grouped aggregate here: {reason}")
    hint = nearest(function, catalogue.list_functions())
    raise UnknownFunctionError(f"{where}: there is no aggregate function {function}. {hint}")
