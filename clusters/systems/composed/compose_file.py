"""Reads a compose file: its services as containers of a run, anything else refused in one line.

All mistakes of a file are reported at once. What a run decides itself (published ports, restarts,
logs) is read over; what would change the service and is not supported is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from holdfast.clusters.systems.composed.fields import (
    build_of,
    dependencies,
    environment,
    health_test,
    names,
    networks,
    ports,
    tmpfs,
    words,
)
from holdfast.clusters.systems.composed.service import Service
from holdfast.clusters.systems.composed.volumes import volumes
from holdfast.harness.core import extras
from holdfast.harness.core.errors import UsageError

TOP_LEVEL = ("services", "volumes", "networks", "version", "name")
READ = (
    *("image", "build", "command", "entrypoint", "environment", "volumes", "tmpfs", "depends_on"),
    *("healthcheck", "hostname", "container_name", "networks", "expose", "ports", "user"),
    "working_dir",
)
READ_OVER = (
    *("restart", "logging", "labels", "annotations", "pull_policy", "platform"),
    *("stop_grace_period", "stop_signal"),
)
"""Keys of a service without effect in a run: its network is closed, it ends services itself."""
SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-?])([^}]*))?\})")
Value = TypeVar("Value")


def read(path: Path, environ: Mapping[str, str] = os.environ) -> tuple[Service, ...]:
    """The services of a file, those that others depend on first. UsageError lists its mistakes.

    environ  values of the variables in it; a file `.env` beside it has the others
    """
    tree, wrong = _tree(path, environ)
    wrong += [
        f"key {key!r} is not supported: expected {', '.join(TOP_LEVEL)}"
        for key in tree
        if key not in TOP_LEVEL and not str(key).startswith("x-")
    ]
    described = tree.get("services")
    if not isinstance(described, dict) or not described:
        raise UsageError(f"{path}: expected a table of services")
    services = []
    for name, table in described.items():
        service, problems = _service(str(name), table)
        wrong += [f"service {name}: {line}" for line in problems]
        services.append(service)
    wrong += _wrong_volumes(tree.get("volumes") or {}, services)
    wrong += _wrong_networks(tree.get("networks") or {}, services)
    ordered, circular = _ordered(services)
    wrong += circular
    if wrong:
        raise UsageError(*(f"{path}: {line}" for line in wrong))
    return ordered


def waves(services: Sequence[Service]) -> list[tuple[list[str], list[str]]]:
    """In the order of a start: the services that must be ready, and those that start then."""
    level: dict[str, int] = {}
    for service in services:
        level[service.name] = 1 + max((level[name] for name in service.after), default=-1)
    steps = []
    for n in sorted(set(level.values())):
        starts = [service for service in services if level[service.name] == n]
        ready = dict.fromkeys(name for service in starts for name in service.ready)
        steps.append((list(ready), [service.name for service in starts]))
    return steps


def _tree(path: Path, environ: Mapping[str, str]) -> tuple[dict[str, object], list[str]]:
    """The file with its variables replaced, and what is wrong with these."""
    yaml = extras.load("yaml", "compose")
    try:
        tree = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        line = " ".join(str(error).split())
        raise UsageError(f"{path}: not YAML: {line}") from error
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: expected a table of services")
    values = {**_dotenv(path.parent / ".env"), **environ}
    wrong: dict[str, None] = {}
    replaced = {str(key): _replaced(value, values, wrong) for key, value in tree.items()}
    return replaced, list(wrong)


def _dotenv(path: Path) -> dict[str, str]:
    """NAME=VALUE lines of a file, which need not exist."""
    if not path.is_file():
        return {}
    lines = (line.strip().removeprefix("export ") for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and line[:1] != "#")
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}


def _replaced(value: object, values: Mapping[str, str], wrong: dict[str, None]) -> object:
    if isinstance(value, dict):
        return {key: _replaced(one, values, wrong) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, values, wrong) for one in value]
    if not isinstance(value, str):
        return value

    def of(match: re.Match[str]) -> str:
        dollar, plain, braced, sign, text = match.groups()
        if dollar:
            return "$"
        name = plain or braced
        known = values.get(name)
        if known is not None and (known or not (sign or "").startswith(":")):
            return known
        if sign and sign.endswith("-"):
            return text or ""
        wrong[f"${{{name}}} has no value: set {name}, or write ${{{name}:-DEFAULT}}"] = None
        return ""

    return VARIABLE.sub(of, value)


class _Fields:
    """The fields of a service; `wrong`: what is wrong with those that were read, one line each."""

    def __init__(self, table: Mapping[str, object]) -> None:
        self._table = table
        self.wrong: list[str] = []

    def read(self, key: str, reader: Callable[[object], Value], default: Value) -> Value:
        """What the reader makes of a field; the default without it."""
        value = self._table.get(key)
        if value is None:
            return default
        try:
            return reader(value)
        except ValueError as error:
            self.wrong.append(f"{key}: {error}")
            return default


def _service(name: str, table: object) -> tuple[Service, list[str]]:
    """A service, and what is wrong with it, one line each."""
    if not isinstance(table, dict):
        return Service(name=name), ["expected a table"]
    of = _Fields(table)
    if not SERVICE.fullmatch(name):
        of.wrong.append("invalid name: expected letters, digits, '.', '_' and '-'")
    of.wrong += [
        f"key {key!r} is not supported: expected one of {', '.join(READ)}"
        for key in table
        if key not in (*READ, *READ_OVER) and not str(key).startswith("x-")
    ]
    if "image" not in table and "build" not in table:
        of.wrong.append("missing image, or build")
    before: dict[str, bool] = of.read("depends_on", dependencies, {})
    host, container = of.read("hostname", _text, ""), of.read("container_name", _text, "")
    none: tuple[int, ...] = ()
    listed = (*of.read("expose", ports, none), *of.read("ports", ports, none))
    entrypoint: tuple[str, ...] = of.read("entrypoint", words, ())
    service = Service(
        name=name,
        image=of.read("image", _text, ""),
        build=of.read("build", build_of, None),
        command=of.read("command", words, ()),
        entrypoint=entrypoint or None,
        env=of.read("environment", environment, {}),
        volumes=of.read("volumes", volumes, ()),
        tmpfs=of.read("tmpfs", tmpfs, ()),
        after=tuple(before),
        ready=tuple(other for other, ready in before.items() if ready),
        health=of.read("healthcheck", health_test, ()),
        aliases=names(name, host, container, table.get("networks")),
        networks=of.read("networks", networks, ("default",)),
        ports=tuple(dict.fromkeys(listed)),
        user=of.read("user", _text, ""),
        folder=of.read("working_dir", _text, ""),
    )
    return service, of.wrong


def _text(value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool) or str(value) == "":
        raise ValueError("expected a text")
    return str(value)


def _wrong_volumes(declared: object, services: Sequence[Service]) -> Iterator[str]:
    """Volumes that are not declared, have a driver, or belong to two services."""
    known = declared if isinstance(declared, dict) else {}
    for name, options in known.items():
        if set(options or {}) - {"name", "labels"} and options != {"driver": "local"}:
            yield f"volume {name}: only a plain volume is supported, without options"
    owner: dict[str, str] = {}
    for service in services:
        for volume in service.volumes:
            if not volume.name:
                continue
            if volume.name not in known:
                yield f"service {service.name}: volume {volume.name} is not declared in volumes"
            if owner.setdefault(volume.name, service.name) != service.name:
                yield (
                    f"volume {volume.name}: {owner[volume.name]} and {service.name} share it; each"
                    " service needs its own"
                )


def _wrong_networks(declared: object, services: Sequence[Service]) -> Iterator[str]:
    """All services are on one network in a run: a file that separates some is refused."""
    for name, options in declared.items() if isinstance(declared, dict) else ():
        if set(options or {}) - {"name", "labels", "internal", "driver"}:
            yield f"network {name}: only a plain network is supported, without options"
    for n, one in enumerate(services):
        for other in services[n + 1 :]:
            if not {*one.networks} & {*other.networks}:
                yield (
                    f"services {one.name} and {other.name} have no network in common: a run has one"
                    " network for all"
                )


def _ordered(services: Sequence[Service]) -> tuple[tuple[Service, ...], list[str]]:
    """The services with those first that others depend on, else as in the file."""
    known = {service.name for service in services}
    wrong = [
        f"service {service.name}: depends_on: no service {name}"
        for service in services
        for name in service.after
        if name not in known
    ]
    left, ordered = list(services), list[Service]()
    while left and not wrong:
        done = {service.name for service in ordered}
        free = [service for service in left if {*service.after} <= done]
        if not free:
            wrong.append(f"depends_on has a cycle: {', '.join(one.name for one in left)}")
        ordered += free
        left = [service for service in left if service not in free]
    return tuple(ordered), wrong
