"""The hosts file: machines for a run's nodes, and how to connect to them."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from holdfast.harness.core import toml
from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.plan import suggest

TUNNEL_PORT = 4789
CLOCK_BOUND = "10ms"
KNOWN_HOSTS = "~/.ssh/known_hosts"
TYPES = {"str": str, "int": int, "bool": bool}


@dataclass(frozen=True, kw_only=True, slots=True)
class Jump:
    """A jump host."""

    address: str
    port: int = 22
    user: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """One machine.

    address            address of its sshd
    inner              address under which the other hosts reach it; "" is `address`
    user, key          login name ("": yours) and private key file ("": your agent's keys)
    sudo               whether root is reached through sudo; False: the login is root already
    sudo_password_env  names an environment variable of the driver; "" is sudo without a password
    python             its Python, 3.11 or newer
    folder             where the run's folder is created and removed
    """

    name: str
    address: str
    inner: str = ""
    port: int = 22
    user: str = ""
    key: str = ""
    sudo: bool = True
    sudo_password_env: str = ""
    python: str = "python3"
    folder: str = "/var/tmp"
    jump: Jump | None = None

    @property
    def reached(self) -> str:
        """The address under which the other hosts reach it."""
        return self.inner or self.address


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """All machines of a run. clock_bound_ns: the accepted clock error."""

    hosts: Sequence[Host]
    known_hosts: str = KNOWN_HOSTS
    clock_bound_ns: int = field(default_factory=lambda: duration_ns(CLOCK_BOUND))
    tunnel_port: int = TUNNEL_PORT


def read(path: Path) -> dict[str, Json]:
    """A hosts file as JSON-ready values for the manifest; UsageError with one line per error."""
    try:
        table = toml.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    problems: list[str] = []
    rows = table.pop("host", [])
    bound = table.pop("clock_bound", CLOCK_BOUND)
    known = {"known_hosts": (str, KNOWN_HOSTS), "tunnel_port": (int, TUNNEL_PORT)}
    values = {}
    for name, (kind, default) in known.items():
        values[name] = table.pop(name, default)
        if type(values[name]) is not kind:
            problems.append(f"{path}: invalid {name} = {values[name]!r}: expected {kind.__name__}")
    for name in table:
        problems.append(f"{path}: {suggest(name, ['host', 'clock_bound', *known], 'key')}")
    try:
        bound_ns = duration_ns(str(bound))
    except UsageError as error:
        bound_ns = 0
        problems.append(f"{path}: clock_bound: {error}")
    if not isinstance(rows, list) or not rows:
        problems.append(f"{path}: no hosts; begin one with [[host]]")
        rows = []
    found = [_host(row, f"{path}: host {n}", problems) for n, row in enumerate(rows, 1)]
    hosts = [host for host in found if host is not None]
    for key in ("name", "reached"):
        seen = [getattr(host, key) for host in hosts]
        for twice in sorted({each for each in seen if seen.count(each) > 1}):
            words = {"reached": "address"}.get(key, key)
            problems.append(f"{path}: two hosts have the {words} {twice!r}; each needs its own")
    if problems:
        raise UsageError(*problems)
    return asdict(Hosts(hosts=hosts, clock_bound_ns=bound_ns, **values))


def from_manifest(table: Mapping[str, Any]) -> Hosts:
    """The hosts of a manifest."""
    hosts = [
        Host(**{**row, "jump": Jump(**row["jump"]) if row["jump"] else None})
        for row in table["hosts"]
    ]
    return Hosts(**{**table, "hosts": hosts})


def _host(row: Any, where: str, problems: list[str]) -> Host | None:
    if not isinstance(row, dict):
        problems.append(f"{where}: expected a table; begin it with [[host]]")
        return None
    before = len(problems)
    jump = row.pop("jump", None)
    if jump is not None:
        jump = _made(Jump, jump, f"{where}: jump", problems, ("address",))
    host = _made(Host, row, where, problems, ("name", "address"))
    if host is not None and not _is_ipv4(host.reached):
        problems.append(
            f"{where}: {host.reached!r} is not an IPv4 address; the tunnel between hosts needs one;"
            " set it as `inner`"
        )
    if host is None or len(problems) > before:
        return None
    return Host(**{**asdict(host), "jump": jump})


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _made(kind: Any, row: Any, where: str, problems: list[str], needed: Sequence[str]) -> Any:
    """A Host or Jump of a table; every error in it becomes a problem."""
    if not isinstance(row, dict):
        problems.append(f"{where}: expected a table with {', '.join(needed)}")
        return None
    shapes = {each.name: str(each.type) for each in fields(kind) if str(each.type) in TYPES}
    before = len(problems)
    for name, value in row.items():
        if name not in shapes:
            problems.append(f"{where}: {suggest(name, [*shapes, 'jump'], 'key')}")
        elif type(value) is not TYPES[shapes[name]]:
            problems.append(f"{where}: invalid {name} = {value!r}: expected {shapes[name]}")
    for name in needed:
        if not row.get(name):
            problems.append(f"{where}: missing {name}")
    return kind(**row) if len(problems) == before else None


def root_of(folder: str, label: str) -> str:
    """The folder of a run on a host."""
    return f"{folder.rstrip('/')}/holdfast-{label}"
