"""Runs a lock class behind the line protocol, so that doctor can test it like a client program.

`python -S -P -m holdfast.clusters.systems.user_class.line_protocol MODULE.CLASS NAME=ADDRESS,...
OPTIONS`: interpreter and path are those of a run's clients, so imports that fail there fail here
too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from holdfast.clusters.systems.user_class.client import OwnClient
from holdfast.clusters.systems.user_class.factory import __getattr__ as factory_of
from holdfast.clusters.systems.user_class.queries import written
from holdfast.clusters.systems.user_class.terms import read
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Status
from holdfast.harness.core.ports import ClientSetup


def _answer(client: OwnClient, ask: Mapping[str, Any]) -> Answer:
    lock, attempt, ttl_ns = ask["lock"], ask["attempt"], ask["lease_ms"] * MILLISECOND
    grant = Grant(lock=lock, attempt=attempt, token=NO_TOKEN, ttl_ns=ttl_ns, granted_at_ns=0)
    match ask["op"]:
        case "renew":
            return client.renew(grant, ttl_ns=ttl_ns)
        case "release":
            return client.release(grant)
        case "check":
            return client.check(grant)
        case _:
            wait_ns = ask["timeout_ms"] * MILLISECOND
            asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
            return client.acquire_on(lock, **asked, terms=read(ask))


def _row(client: OwnClient, ask: Mapping[str, Any]) -> dict[str, Json]:
    """The response to a request, without its id."""
    if ask["op"] == "query":
        queried = client.query(ask["lock"], attempt=ask["attempt"])
        error: dict[str, Json] = {"error": queried.error} if queried.error else {}
        return {"outcome": Status(queried.outcome).name.lower(), **written(queried), **error}
    try:
        answer = _answer(client, ask)
    except Exception as wrong:
        answer = Answer(outcome=Status.INFO, error=f"{type(wrong).__name__}: {wrong}")
    row: dict[str, Json] = {"outcome": Status(answer.outcome).name.lower()}
    row |= {"token": answer.token} if answer.token >= 0 else {}
    return row | ({"error": answer.error} if answer.error else {})


def main(name: str, servers: str, options: str) -> None:
    """Respond to each line of standard input. An error of opening ends it, as it ends a run."""
    pairs = [tuple(one.split("=")) for one in servers.split(",") if one]
    setup = ClientSetup(
        process=1,
        name="doctor",
        servers=[(node, address) for node, address in pairs],
        lease_ns=0,
        options=json.loads(options),
        tell=lambda *_, **__: None,
        clients=[("doctor", "127.0.0.1")],
    )
    client = factory_of(name)(setup)
    stdout, sys.stdout = sys.stdout, sys.stderr  # what the class prints is no response
    try:
        client.open()
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
    for line in sys.stdin:
        ask = json.loads(line)
        stdout.write(json.dumps({"id": ask["id"], **_row(client, ask)}) + "\n")
        stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
