"""Misspelt attributes of a user's lock class, which Python would ignore without a word.

A class may have attributes and methods of its own. So only those count that are close to one that
Holdfast reads, that the class lacks, and that have its kind of value.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence

CLOSE = 0.8
"""Least similarity of two names, as `difflib` has it: one wrong letter of five."""


def _words(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


VALUES: Mapping[str, Callable[[object], bool]] = {
    "tokens": lambda value: isinstance(value, str),
    "bound": lambda value: isinstance(value, str),
    "order": lambda value: isinstance(value, str),
    "purpose": lambda value: isinstance(value, str),
    "proves": lambda value: isinstance(value, bool),
    "waits": lambda value: isinstance(value, bool),
    "nodes": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "session_ms": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "lapse_ms": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "most_permits": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "ports": _words,
    "libraries": _words,
    "environment": lambda value: isinstance(value, str),
    "options": lambda value: isinstance(value, Mapping),
    "promises": lambda value: isinstance(value, Mapping),
}
"""Attribute of a lock class -> whether a value is of its type."""
METHODS = {"acquire": 4, "renew": 4, "release": 3, "close": 1, "server": 4}
"""Method of a lock class -> its parameters, `self` among them."""


def misspelt(made: type[object]) -> list[str]:
    """One line for each attribute that is probably meant to be one that Holdfast reads."""
    lacking = [name for name in (*VALUES, *METHODS) if not hasattr(made, name)]
    problems = []
    for name, value in _own(made).items():
        if name in VALUES or name in METHODS:
            continue
        meant = [known for known in lacking if _is_meant(name, value, known)]
        for known in difflib.get_close_matches(name, meant, 1, CLOSE):
            problems.append(
                f"unknown attribute {name!r}; did you mean {known!r}? (an attribute of your own:"
                f" '_{name}')"
            )
    return problems


def _own(made: type[object]) -> dict[str, object]:
    """The public attributes of the class and of its bases in the same module."""
    bases = [base for base in made.__mro__ if base.__module__ == made.__module__]
    return {
        name: value
        for base in reversed(bases)
        for name, value in vars(base).items()
        if not name.startswith("_")
    }


def _is_meant(name: str, value: object, known: str) -> bool:
    if known in VALUES:
        return VALUES[known](value)
    # "closed" and "renewed" are names of questions, not misspelt requests.
    if not inspect.isfunction(value) or name in (f"{known}d", f"{known}ed"):
        return False
    return len(inspect.signature(value).parameters) == METHODS[known]
