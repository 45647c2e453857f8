"""Authentication of etcd: an administrator, and a user whose role may touch the locks only."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.clusters.systems.etcd.json_gateway import (
    NO_USER,
    NoAnswer,
    NotSent,
    Refused,
    Server,
    User,
    encoded,
)
from holdfast.harness.core.json_value import Json

ROOT = User("root", "administrator")
"""etcd demands this name for the user that may do everything."""
LOCKS = User("locks", "holdfast")
WITHIN_S = 2.0
FIRST, AFTER_LAST = "holdfast/", "holdfast0"
"""The keys of locks: those with the prefix FIRST."""
SETUP: tuple[tuple[str, Mapping[str, Json]], ...] = (
    ("user/add", {"name": ROOT.name, "password": ROOT.password}),
    ("role/add", {"name": "root"}),
    ("user/grant", {"user": ROOT.name, "role": "root"}),
    ("user/add", {"name": LOCKS.name, "password": LOCKS.password}),
    ("role/add", {"name": LOCKS.name}),
    (
        "role/grant",
        {
            "name": LOCKS.name,
            "perm": {
                "permType": "READWRITE",
                "key": encoded(FIRST),
                "range_end": encoded(AFTER_LAST),
            },
        },
    ),
    ("user/grant", {"user": LOCKS.name, "role": LOCKS.name}),
    ("enable", {}),
)
DONE = frozenset(
    (
        "etcdserver: user name already exists",
        "etcdserver: role name already exists",
    )
)
"""What a repeated request of the setup is refused with."""


async def enabled(address: str, port: int) -> bool:
    """Whether this member demands a user for the keys of locks. If not, requests that the cluster
    does, and returns False: the member learns it later."""
    server = Server(address, port)
    try:
        key: Mapping[str, Json] = {"key": encoded(FIRST), "serializable": True}
        await server.ask("/v3/kv/range", key, WITHIN_S)
        for path, body in SETUP:
            try:
                await server.ask(f"/v3/auth/{path}", body, WITHIN_S)
            except Refused as error:
                if str(error) not in DONE:
                    raise
    except Refused as error:
        return str(error).endswith(NO_USER)
    except (NotSent, NoAnswer):
        return False
    finally:
        server.close()
    return False
