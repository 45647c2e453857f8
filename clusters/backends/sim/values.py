"""Values of the service at the price of plain objects, for a process that only simulates.

To make a frozen dataclass costs more than twice as much as a plain one, for each field goes through
`object.__setattr__`, and values are what a simulated run makes most of. That nobody changes a value
is proved by the type checker and, on hosts and in the tests of the service, at run time.

On CPython 3.11 an enumeration is asked for its members through a hook, which is there for names
that it does not have: fifteen times the price of any other attribute. From 3.12 on there is none.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields, is_dataclass
from enum import EnumType
from typing import Any

from holdfast.harness.core.json_value import Json

HOOK = "__getattr__"
PACKAGES = ("holdfast.clusters.systems.", "holdfast.harness.")


def unguard() -> None:
    """Makes the frozen dataclasses of all loaded modules that run inside cheap to make, and the
    members of enumerations cheap to name."""
    if HOOK in vars(EnumType):
        delattr(EnumType, HOOK)
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGES):
            for kind in list(vars(module).values()):
                if isinstance(kind, type) and kind.__module__ == name and is_dataclass(kind):
                    _unguard(kind)


def _unguard(kind: type[Any]) -> None:
    own = vars(kind)
    if "__setattr__" not in own or "__post_init__" in own or not fields(kind):
        return
    given, defaults = ["*"], dict[str, Any]()
    for field in fields(kind):
        if field.default_factory is not MISSING or not field.init or not field.kw_only:
            return
        given.append(field.name if field.default is MISSING else f"{field.name}=_{field.name}")
        defaults[f"_{field.name}"] = field.default
    body = [f" self.{field.name} = {field.name}" for field in fields(kind)] or [" pass"]
    made: dict[str, Json] = {}
    exec(f"def __init__(self, {', '.join(given)}):\n" + "\n".join(body), defaults, made)
    kind.__init__ = made["__init__"]
    del kind.__setattr__, kind.__delattr__
