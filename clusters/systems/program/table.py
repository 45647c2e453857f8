"""Validates the `[system]` table of a lock server, which needs no Python code.

All errors of a table are reported at once, with what was probably meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping

from holdfast.clusters.systems.program.command_line import blanks, split
from holdfast.clusters.systems.user_class.system import CHOICES, LENGTHS, STARTS, wrong_length
from holdfast.clusters.systems.user_class.terms import LISTED
from holdfast.harness.core.json_value import Json
from holdfast.harness.properties import PROPERTIES

MOST = 9
NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
SERVERS_NAME = re.compile(r"[a-z][a-z0-9-]*")
IMAGE = re.compile(r"[a-z0-9][\w./:@-]*")
CLIENT_BLANKS = frozenset(
    ("node", "servers", "seed", "python", "lease", "address", "index", "clients")
)
SERVER_BLANKS = frozenset(("node", "address", "data", "peers", "others", "servers", "python"))
QUESTION = frozenset(("port", "send", "expect"))


def _words(allowed: frozenset[str]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            return "expected a command line in one string"
        try:
            unknown = sorted(blanks(split(value)) - allowed)
        except ValueError as error:
            return f"invalid command line: {error}"
        names = ", ".join(sorted(allowed))
        return f"unknown {{{unknown[0]}}}: expected one of {names}" if unknown else ""

    return check


def _environment(value: object) -> str:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return "expected a table of strings"
    unknown = sorted(blanks(list(value.values())) - SERVER_BLANKS)
    return f"unknown {{{unknown[0]}}}" if unknown else ""


def _ports(value: object) -> str:
    ports = value if isinstance(value, list) else []
    good = all(type(port) is int and 0 < port < 65536 for port in ports)
    return "" if ports and good else "expected a list of port numbers"


def _nodes(value: object) -> str:
    return "" if type(value) is int and 1 <= value <= MOST else f"expected a number, 1 to {MOST}"


def _image(value: object) -> str:
    good = isinstance(value, str) and IMAGE.fullmatch(value)
    return "" if good else "expected the name of a docker image, as in my-lock:1"


def _compose(value: object) -> str:
    return "" if isinstance(value, str) and value else "expected a file, as in compose.yaml"


def _data(value: object) -> str:
    good = isinstance(value, str) and re.fullmatch(r"(/[\w.-]+)+", value) and ".." not in value
    return "" if good else "expected a path inside the image, as in /var/lib/my-lock"


def _files(value: object) -> str:
    good = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return "" if good else "expected a list of paths relative to the table's file"


def _libraries(value: object) -> str:
    good = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return "" if good else "expected a list of packages or files, as in redis==5.0.8, package.json"


def _environment_folder(value: object) -> str:
    return "" if isinstance(value, str) else "expected the folder of a virtual environment"


def _name(value: object) -> str:
    good = isinstance(value, str) and NAME.fullmatch(value)
    return "" if good else "expected letters, digits, dots and dashes, as in my-lock"


def _question(value: object) -> str:
    if not isinstance(value, dict):
        return "expected a table: port, send, expect"
    unknown = sorted(set(value) - QUESTION)
    if unknown:
        return f"unknown {unknown[0]!r}: expected port, send, expect"
    good = type(value.get("port", 1)) is int
    good = good and all(isinstance(value.get(name, ""), str) for name in ("send", "expect"))
    return "" if good else "expected a number as port, and strings as send and expect"


def _leader(value: object) -> str:
    wrong = _question(value)
    expected = isinstance(value, dict) and value.get("expect")
    return wrong or ("" if expected else "missing expect: the response of the leader")


def _promises(value: object) -> str:
    if not isinstance(value, dict):
        return "expected a table: property -> kinds of faults, or 'any'"
    for name, kinds in value.items():
        if name not in PROPERTIES:
            return f"unknown property: {name}{_meant(name, PROPERTIES)}"
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            return f"{name}: expected a list of kinds of faults, or 'any'"
    return ""


def _one_of(name: str) -> Callable[[object], str]:
    return lambda value: (
        "" if value in CHOICES[name] else f"expected one of {', '.join(CHOICES[name])}"
    )


def _abilities(value: object) -> str:
    listed = value if isinstance(value, list) else [value]
    unknown = [name for name in listed if name not in LISTED]
    if unknown or not isinstance(value, list):
        return f"expected a list of abilities: {', '.join(LISTED)}"
    return ""


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else "expected true or false"


KEYS: Mapping[str, Callable[[object], str]] = {
    "name": _name,
    "client": _words(CLIENT_BLANKS),
    "server": _words(SERVER_BLANKS),
    "image": _image,
    "compose": _compose,
    "data": _data,
    "env": _environment,
    "ports": _ports,
    "nodes": _nodes,
    "files": _files,
    "libraries": _libraries,
    "environment": _environment_folder,
    "ready": _question,
    "leader": _leader,
    "promises": _promises,
    "tokens": _one_of("tokens"),
    "bound": _one_of("bound"),
    "order": _one_of("order"),
    "purpose": _one_of("purpose"),
    "proves": _flag,
    # With the bound beside them: `_lengths`.
    **dict.fromkeys(LENGTHS, lambda _: ""),
    "abilities": _abilities,
    "start": lambda value: "" if value in STARTS else f"expected one of {', '.join(STARTS)}",
}
"""Key -> check of its value: the error, "" for none."""


def problems(table: Mapping[str, Json]) -> list[str]:
    """All errors of a table, one line each."""
    errors = [f"unknown key: {name}{_meant(name, KEYS)}" for name in table if name not in KEYS]
    for name, check in KEYS.items():
        wrong = check(table[name]) if name in table else ""
        errors += [f"{name}: {wrong}"] if wrong else []
    if "client" not in table:
        errors.append("missing client: the command line of a program that speaks JSON lines")
    served = has_servers(table)
    if "compose" in table:
        return errors + _beside_compose(table)
    if served and "ports" not in table:
        errors.append("missing ports: the ports that the server listens on, as in ports = [7400]")
    needless = [name for name in ("env", "nodes", "ready", "leader") if name in table]
    if needless and server_of(table):
        errors.append(
            f"{', '.join(needless)}: {server_of(table)} is a built-in system with its own"
        )
    elif needless and not served:
        errors.append(f"{', '.join(needless)} without a server or image to start")
    errors += _lengths(table)
    if "data" in table and "image" not in table:
        errors.append(
            "data without image: without an image, {data} in server is a persistent folder"
        )
    return errors


def _lengths(table: Mapping[str, Json]) -> list[str]:
    """What is wrong with its declared lengths for its bound, one line each."""
    wrong = {name: wrong_length(name, table.get(name), table.get("bound")) for name in LENGTHS}
    return [f"{name}: {why}" for name, why in wrong.items() if why]


def _beside_compose(table: Mapping[str, Json]) -> list[str]:
    """What is wrong with a table that names a compose file, beside its single keys."""
    named = [key for key in ("server", "image", "data", "env", "nodes", "ready") if key in table]
    mistakes = _lengths(table)
    if "start" in table:
        mistakes.append("start: depends_on of the services says who starts first")
    if named:
        mistakes.append(f"{', '.join(named)}: the compose file describes the servers")
    return mistakes


def has_servers(table: Mapping[str, Json]) -> bool:
    """Whether a table has servers to start, from a command line or from an image."""
    return ("server" in table or "image" in table) and not server_of(table)


def server_of(table: Mapping[str, Json]) -> str:
    """The built-in system whose servers a table uses: its `server` is one word, without ports; ""
    for none.

    A server of one's own that listens on no port could not be asked whether it is ready.
    """
    server = table.get("server", "")
    named = isinstance(server, str) and SERVERS_NAME.fullmatch(server) and "ports" not in table
    return str(server) if named and "image" not in table else ""


def _meant(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else f" (known: {', '.join(known)})"
