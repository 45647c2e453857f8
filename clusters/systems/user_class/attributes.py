"""Mistakes in a user's lock class that Python would ignore, or show only when a client calls it.

Attributes that are misspelt, and methods that cannot be called as clients call them. A class may
have attributes and methods of its own. So of those that are not called, only those count that are
close to one that Holdfast reads, that the class lacks, and that have its kind of value.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from holdfast.clusters.systems.user_class.terms import PARAMETERS

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
CALLED: Mapping[str, Sequence[str]] = {
    "acquire": ("lock", "owner", "lease"),
    "renew": ("lock", "owner", "lease"),
    "release": ("lock", "owner"),
    "check": ("lock", "owner"),
    "place": ("lock", "owner"),
    "holder": ("lock",),
    "length": ("lock",),
    "close": (),
}
"""Method of a lock class -> what clients call it with, in this order."""
MADE_WITH = ("servers", "options")
MADE_BY_NAME = ("now", "name", "index", "address", "clients")
"""What a class is made with, and what else its constructor may take, by name."""


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


def miscalled(made: type[object]) -> list[str]:
    """One line for the constructor and each method that cannot be called as clients call them."""
    problems = []
    wrong = _no_call(made, MADE_WITH, MADE_BY_NAME)
    if wrong:
        problems.append(
            f"__init__ is called with ({', '.join(MADE_WITH)}), and by name with what it has of"
            f" {', '.join(MADE_BY_NAME)}: {wrong}"
        )
    waits = ("timeout",) if getattr(made, "waits", False) is True else ()
    terms = {"waiting", *chain.from_iterable(PARAMETERS.values())}
    for name, given in CALLED.items():
        method = inspect.getattr_static(made, name, None)
        words = (*given, *(waits if name == "acquire" else ()))
        wrong = _no_call(method, ("self", *words), terms) if inspect.isfunction(method) else ""
        if wrong:
            problems.append(f"{name} is called with ({', '.join(words)}): {wrong}")
    return problems


def _no_call(called: Callable[..., object], given: Sequence[str], by_name: Collection[str]) -> str:
    """Why it cannot be called with these, "" if it can; by_name: what it also gets if it has it."""
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return ""  # one of C may have no signature
    try:
        signature.bind(*given, **{name: name for name in by_name if name in signature.parameters})
    except TypeError as error:
        return f"{error}; it has ({', '.join(signature.parameters)})"
    return ""


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
