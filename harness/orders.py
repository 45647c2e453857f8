"""What a client does to itself because a fault says so: the two ends of that line.

An order is one JSON line in a fifo beside the worker's configuration; what came of it is a line in
a file there. Standard library only, for one end is in the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.harness.clock import SECOND, now_ns
from holdfast.harness.errors import EnvironmentFailed
from holdfast.harness.waiting import until

if TYPE_CHECKING:
    from holdfast.harness.agent_link import AgentLink
    from holdfast.harness.client import Context

TOLD_WITHIN_NS = 2 * SECOND
BLOCKING = "a call of a blocking library cannot be cancelled"


class Obeys:
    """The worker's end. Orders: cancel (calls that run), stall (the thread that makes them)."""

    def __init__(self, path: Path, contexts: Sequence[Context]) -> None:
        self._contexts = contexts
        self._done = path.with_suffix(".done")
        os.mkfifo(path)
        # Open for writing too, so that it does not end with its first writer.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._fifo, self._read)

    def _read(self) -> None:
        for line in os.read(self._fifo, 65536).splitlines():
            order = json.loads(line)
            for ctx in self._contexts:
                self._stall(ctx, order) if order["what"] == "stall" else self._cancel(ctx, order)

    def _cancel(self, ctx: Context, order: Mapping[str, Any]) -> None:
        if ctx.thread is not None:
            self._note(order, refused=BLOCKING)
            return
        ctx.guard.cancel_calls(
            order["count"],
            after_s=order["after_ns"] / SECOND,
            within_s=order["for_ns"] / SECOND,
            told=lambda ran_s: self._note(order, cancelled=1, ran_ms=round(ran_s * 1000, 1)),
        )

    def _stall(self, ctx: Context, order: Mapping[str, Any]) -> None:
        def stand_still() -> None:
            begun_ns = now_ns()
            time.sleep(order["for_ns"] / SECOND)
            self._note(order, stalled_ms=(now_ns() - begun_ns) // 1_000_000)

        if ctx.thread is not None:
            ctx.thread.submit(stand_still)
        else:
            stand_still()

    def _note(self, order: Mapping[str, Any], **what: Any) -> None:
        with self._done.open("a") as done:
            done.write(json.dumps({"fault": order["fault"], "t_ns": now_ns(), **what}) + "\n")


class Orders:
    """The driver's end: asked like the fault agent, to which it passes all else on."""

    def __init__(self, agent: AgentLink, folder: Path) -> None:
        self._agent = agent
        self._folder = folder
        self._given: dict[str, Sequence[str]] = {}
        self._stalls: set[str] = set()

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        """As `AgentLink.ask`. EnvironmentFailed where a client does not listen."""
        if do == "order":
            self._given[args["fault"]] = args["nodes"]
            if args["what"] == "stall":
                self._stalls.add(args["fault"])
            for node in args["nodes"]:
                self._tell(node, args)
            return {"t_ns": now_ns(), "evidence": {}}
        if do in ("observe", "heal") and args["fault"] in self._given:
            if do == "heal" and args["fault"] in self._stalls:
                # Who stands still can tell of it only when that is over.
                await until(lambda: self._seen(args["fault"])["bit"], within_ns=TOLD_WITHIN_NS)
            return {"t_ns": now_ns(), "evidence": self._seen(args["fault"])}
        return await self._agent.ask(do, **args)

    def _tell(self, node: str, order: Mapping[str, Any]) -> None:
        """To the newest worker of the node; the one before it is dead."""
        listening = sorted(self._folder.glob(f"{node}*.order"), key=lambda p: p.stat().st_mtime_ns)
        try:
            line = os.open(listening[-1], os.O_WRONLY | os.O_NONBLOCK)
        except (IndexError, OSError) as error:
            raise EnvironmentFailed(f"order to {node}: it does not listen: {error}") from error
        os.write(line, json.dumps(dict(order)).encode() + b"\n")
        os.close(line)

    def _seen(self, fault: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for node in self._given[fault]:
            for path in self._folder.glob(f"{node}*.done"):
                found += [json.loads(line) for line in path.read_text().splitlines()]
        mine = [row for row in found if row.pop("fault") == fault]
        return {"bit": any("refused" not in row for row in mine), "done": mine}
