"""Row locks (`SELECT ... FOR UPDATE`) on a CockroachDB that the user deployed."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.harness.core.errors import UsageError

PORT = 26257
CONNECT_S = 1.0
DEFAULTS = {"at": "127.0.0.1:26257", "user": "root", "database": "defaultdb", "idle": "lease"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """Address of the server, and login."""

    host: str
    port: int
    user: str
    database: str


def unreachable() -> str | None:
    """Why no server is reached without further options; None if one listens."""
    place = where({})
    try:
        with socket.create_connection((place.host, place.port), timeout=CONNECT_S):
            return None
    except OSError:
        return (
            f"no server at {place.host}:{place.port}: deploy CockroachDB there, or name its address"
            " with --set at=HOST:PORT"
        )


def where(options: Mapping[str, str]) -> Login:
    """The server that the options name. UsageError says what is wrong with them."""
    unknown = sorted(set(options) - set(DEFAULTS))
    if unknown:
        known = ", ".join(sorted(DEFAULTS))
        raise UsageError(f"cockroachdb: unknown option: {', '.join(unknown)} (known: {known})")
    given = {**DEFAULTS, **options}
    host, _, port = given["at"].partition(":")
    if not host:
        raise UsageError(
            f"cockroachdb: invalid at={given['at']}: expected its address for clients: --set"
            " at=HOST:PORT"
        )
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"cockroachdb: at={given['at']}: invalid port {port!r}")
    if given["idle"] not in ("lease", "none"):
        raise UsageError(f"cockroachdb: invalid idle={given['idle']}: expected lease or none")
    return Login(host=host, port=int(port or PORT), user=given["user"], database=given["database"])
