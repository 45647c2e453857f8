"""The `[system]` table of a lock server that nobody has to write Python for.

All that is wrong with a table is told at once, with what was probably meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.clusters.systems.program.command_line import blanks, split
from holdfast.clusters.systems.user_class.system import CHOICES
from holdfast.harness.core.verdict import PROPERTIES

MOST = 9
NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
IMAGE = re.compile(r"[a-z0-9][\w./:@-]*")
CLIENT_BLANKS = frozenset(("node", "servers", "seed", "python"))
SERVER_BLANKS = frozenset(("node", "address", "data", "peers", "others", "servers", "python"))
QUESTION = frozenset(("port", "send", "expect"))


def _words(allowed: frozenset[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            return "must be a command line in one string"
        try:
            unknown = sorted(blanks(split(value)) - allowed)
        except ValueError as error:
            return f"cannot be split into words: {error}"
        names = ", ".join(sorted(allowed))
        return f"has {{{unknown[0]}}}, which is not of {names}" if unknown else ""

    return check


def _environment(value: Any) -> str:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return "must be a table of strings"
    unknown = sorted(blanks(list(value.values())) - SERVER_BLANKS)
    return f"has {{{unknown[0]}}}, which nothing fills in" if unknown else ""


def _ports(value: Any) -> str:
    good = isinstance(value, list) and bool(value)
    good = good and all(type(port) is int and 0 < port < 65536 for port in value)
    return "" if good else "must be a list of port numbers"


def _nodes(value: Any) -> str:
    return "" if type(value) is int and 1 <= value <= MOST else f"must be a number, 1 to {MOST}"


def _image(value: Any) -> str:
    good = isinstance(value, str) and IMAGE.fullmatch(value)
    return "" if good else "must be the name of an image that docker has, as in my-lock:1"


def _data(value: Any) -> str:
    good = isinstance(value, str) and re.fullmatch(r"(/[\w.-]+)+", value) and ".." not in value
    return "" if good else "must be a path inside the image, as in /var/lib/my-lock"


def _files(value: Any) -> str:
    good = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return "" if good else "must be a list of paths beside the table's file"


def _name(value: Any) -> str:
    good = isinstance(value, str) and NAME.fullmatch(value)
    return "" if good else "must be of letters, digits, dots, dashes: as in my-lock"


def _question(value: Any) -> str:
    if not isinstance(value, dict):
        return "must be a table: port, send, expect"
    unknown = sorted(set(value) - QUESTION)
    if unknown:
        return f"has {unknown[0]!r}, which is not of port, send, expect"
    good = type(value.get("port", 1)) is int
    good = good and all(isinstance(value.get(name, ""), str) for name in ("send", "expect"))
    return "" if good else "must have a number as port, and strings to send and expect"


def _leader(value: Any) -> str:
    wrong = _question(value)
    return wrong or ("" if value.get("expect") else "must say what the leader answers (expect)")


def _promises(value: Any) -> str:
    if not isinstance(value, dict):
        return "must be a table: property -> kinds of faults, or 'any'"
    for name, kinds in value.items():
        if name not in PROPERTIES:
            return f"has no such property: {name}{_meant(name, PROPERTIES)}"
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            return f"{name} must be a list of kinds of faults, or 'any'"
    return ""


def _one_of(name: str) -> Callable[[Any], str]:
    return lambda value: "" if value in CHOICES[name] else f"is not of {', '.join(CHOICES[name])}"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


KEYS: Mapping[str, Callable[[Any], str]] = {
    "name": _name,
    "client": _words(CLIENT_BLANKS),
    "server": _words(SERVER_BLANKS),
    "image": _image,
    "data": _data,
    "env": _environment,
    "ports": _ports,
    "nodes": _nodes,
    "files": _files,
    "ready": _question,
    "leader": _leader,
    "promises": _promises,
    "tokens": _one_of("tokens"),
    "bound": _one_of("bound"),
    "order": _one_of("order"),
    "purpose": _one_of("purpose"),
    "proves": _flag,
}
"""Key -> what is wrong with a value, "" if nothing is."""


def problems(table: Mapping[str, Any]) -> list[str]:
    """All that is wrong with a table, one line each."""
    found = [f"no such key: {name}{_meant(name, KEYS)}" for name in table if name not in KEYS]
    for name, check in KEYS.items():
        wrong = check(table[name]) if name in table else ""
        found += [f"{name} {wrong}"] if wrong else []
    if "client" not in table:
        found.append("it has no client: the command line of a program that speaks JSON lines")
    served = has_servers(table)
    if served and "ports" not in table:
        found.append("it has a server and no ports: say where it listens, as in ports = [7400]")
    needless = [name for name in ("env", "nodes", "ready", "leader") if name in table]
    if needless and not served:
        found.append(f"it has {', '.join(needless)} and no server or image to start")
    if "data" in table and "image" not in table:
        found.append("it has data and no image: without one, {data} in server is a folder to keep")
    return found


def has_servers(table: Mapping[str, Any]) -> bool:
    """Whether a table has servers to start, from a command line or from an image."""
    return "server" in table or "image" in table


def _meant(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else f" (known: {', '.join(known)})"
