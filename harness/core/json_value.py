"""The type of a JSON value, the JSON form of a dataclass, and keys that older versions wrote.

`Json` is for what is read, written or sent as JSON without a type of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:
    # msgspec reads the annotations of dataclasses, and no recursive alias.
    Json = Any

OMITTED = {"omitted": True}
"""Metadata of a field that is not written if it has its default value."""


def plain(value: object) -> Any:
    """The JSON form of a value: dataclasses as objects in the order of their fields, recursively.

    What is no dataclass, mapping, sequence or enum stays as it is.
    """
    if isinstance(value, str | int | float) or value is None:
        return value.value if isinstance(value, Enum) else value
    if is_dataclass(value) and not isinstance(value, type):
        found = ((name, getattr(value, name), default) for name, default in _names(type(value)))
        return {name: plain(one) for name, one, default in found if not _absent(one, default)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [plain(one) for one in value]
    return value


@cache
def _names(kind: type[object]) -> Sequence[tuple[str, object]]:
    """The fields of a dataclass, each with the value of it that is not written, or MISSING."""
    assert is_dataclass(kind)
    found = []
    for one in fields(kind):
        made = one.default_factory() if one.default_factory is not MISSING else one.default
        found.append((one.name, made if one.metadata else MISSING))
    return found


def _absent(value: object, default: object) -> bool:
    # Of a dataclass only the default itself: a measurement may happen to be equal to it.
    return value is default or (not is_dataclass(default) and value == default)


FORMER = {"bit": "effective"}
"""Former key -> key. Fault rows and judged faults of holdfast-run/1 and holdfast-verdict/1 and 2,
their evidence, and the results of campaigns."""
WITHIN = ("evidence", "faults")
"""Keys of the objects that may have former keys inside."""


def current(table: Mapping[str, Json]) -> dict[str, Json]:
    """A fault row, a result or a whole `verdicts.json` with the keys of today; others stay."""
    found = {FORMER.get(name, name): value for name, value in table.items()}
    for name in WITHIN:
        inner = found.get(name)
        if isinstance(inner, Mapping):
            found[name] = current(inner)
        elif isinstance(inner, list):
            found[name] = [current(one) if isinstance(one, Mapping) else one for one in inner]
    return found
