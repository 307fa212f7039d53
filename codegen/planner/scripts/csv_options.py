"""Options of CSV in WITH (..): Flink's names, and ours for what Flink has no option for."""

from __future__ import annotations

from typing import Any

from aggloom.errors import OptionError, nearest

_NAMES = {
    "csv.field-delimiter": "sep",
    "csv.quote-character": "quote",
    "csv.escape-character": "escape",
    "csv.null-literal": "nullValue",
    "csv.header": "header",
    "csv.encoding": "encoding",
}
_FLAGS = {"csv.allow-comments": ("comment", "#"), "csv.disable-quote-character": ("quote", "")}
"""Words that take true or false: the option, and its value where it is true."""
CSV_WORDS = (*_NAMES, *_FLAGS)


def take_csv_options(options: dict[str, str]) -> dict[str, Any]:
    """Take the options of CSV out of those of a table, as the reader of CSV has them; raises OptionError.

    Example: other options stay.
        >>> options = {"csv.field-delimiter": ";", "csv.allow-comments": "true", "path": "in"}
        >>> take_csv_options(options), options
        ({'sep': ';', 'comment': '#'}, {'path': 'in'})
    """
    settings: dict[str, Any] = {
        own: options.pop(name) for name, own in _NAMES.items() if name in options
    }
    for name, (own, value) in _FLAGS.items():
        # false is what holds without the option, and sets nothing.
        text = options.pop(name, "false")
        if text.lower() not in ("true", "false"):
            raise OptionError(f"'{name}' is {text!r}. {nearest(text.lower(), ('true', 'false'))}")
        if text.lower() == "true":
            settings[own] = value
    return settings
