"""Queries of a system that only a host can make: server command, readiness, leader.

`python3 -S -m holdfast.clusters.backends.ssh.system_queries MODULE:ATTR`, as the login user, inside
the nodes' network. The driver cannot reach the nodes' addresses, and a system may create folders
for the server whose command it returns. JSON lines in and out; it exits when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Node, Place, System


async def answer(system: System, request: dict[str, Any]) -> dict[str, Any]:
    """ "ready" of a "node", "leader" of "servers", or "command" of both with a "place"."""
    options = request["options"]
    if request["do"] == "ready":
        return {"ok": True, "said": await system.ready(Node(**request["node"]), options)}
    servers = [Node(**server) for server in request["servers"]]
    if request["do"] == "leader":
        return {"ok": True, "said": await system.leader(servers, options)}
    given = request["place"]
    place = Place(
        run_id=given["run_id"],
        run_dir=Path(given["run_dir"]),
        shared=tuple(map(Path, given["shared"])),
        label=given["label"],
        seed=given["seed"],
    )
    made = system.command(Node(**request["node"]), servers, place, options)
    said: dict[str, Json] = {"argv": list(made.argv), "log": str(made.log), "env": dict(made.env)}
    said |= {"prelude": made.prelude, "nobody": made.nobody}
    return {"ok": True, "said": said}


async def main(argv: list[str]) -> int:
    """Serves until its input ends."""
    system: System = load(argv[1])
    loop = asyncio.get_running_loop()
    print(json.dumps({"ok": True}), flush=True)  # noqa: T201
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line.startswith("{"):
            request = json.loads(line)
            try:
                said = await answer(system, request)
            except Exception as error:
                said = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            said["number"] = request.get("number")
            print(json.dumps(said), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv)))
