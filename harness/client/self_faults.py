"""Faults that a client injects into itself on an order of the driver: both ends.

An order is one JSON line in a fifo beside the worker's configuration; its result is a line in a
file there. Standard library only, because one end is in the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.harness.client import forking
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.waiting import until

if TYPE_CHECKING:
    from holdfast.harness.client.agent_link import AgentLink
    from holdfast.harness.client.context import Context

TOLD_WITHIN_NS = 2 * SECOND
BLOCKING = "a call of a blocking library cannot be cancelled"
COROUTINES = "only a client over a blocking Python library can be forked"
BUSY = "its thread was in a call the whole time"
LATE = ("stall", "fork")
"""Faults whose result is known only when they are over."""


class OrderReceiver:
    """The worker's end. Orders: cancel (calls in flight), stall (the thread that makes them), fork
    (from that thread)."""

    def __init__(self, path: Path, contexts: Sequence[Context]) -> None:
        self._contexts = contexts
        self._done = path.with_suffix(".done")
        os.mkfifo(path)
        # Open for writing too, so that no end of file comes when its first writer closes it.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._fifo, self._read)
        self._orders = {"cancel": self._cancel, "stall": self._stall, "fork": self._fork}

    def _read(self) -> None:
        for line in os.read(self._fifo, 65536).splitlines():
            order = json.loads(line)
            for ctx in self._contexts:
                self._orders[order["what"]](ctx, order)

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

    def _fork(self, ctx: Context, order: Mapping[str, Any]) -> None:
        until_ns = now_ns() + order["for_ns"]

        def part() -> None:
            begun_ns = now_ns()
            if begun_ns >= until_ns:
                self._note(order, refused=BUSY)
                return
            child = forking.fork(ctx.disown, order["how"], until_ns - begun_ns)
            threading.Thread(target=see_off, args=(child, begun_ns), daemon=True).start()

        def see_off(child: int, begun_ns: int) -> None:
            came_to = forking.end(child)
            self._note(order, **came_to, lived_ms=(now_ns() - begun_ns) // 1_000_000)

        if ctx.thread is None:
            self._note(order, refused=COROUTINES)
        else:
            ctx.thread.submit(part)

    def _note(self, order: Mapping[str, object], **what: object) -> None:
        with self._done.open("a") as done:
            done.write(json.dumps({"fault": order["fault"], "t_ns": now_ns(), **what}) + "\n")


class OrderingAgent:
    """The driver's end: like the fault agent, to which it forwards all other requests."""

    def __init__(self, agent: AgentLink, folder: Path) -> None:
        self._agent = agent
        self._folder = folder
        self._given: dict[str, Sequence[str]] = {}
        self._late: set[str] = set()

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        """As `AgentLink.ask`. EnvironmentFailed if a client does not read its orders."""
        if do == "order":
            self._given[args["fault"]] = args["nodes"]
            if args["what"] in LATE:
                self._late.add(args["fault"])
            for node in args["nodes"]:
                self._tell(node, args)
            return {"t_ns": now_ns(), "evidence": {}}
        if do in ("observe", "heal") and args["fault"] in self._given:
            if do == "heal" and args["fault"] in self._late:
                await until(
                    lambda: bool(self._seen(args["fault"])["done"]), within_ns=TOLD_WITHIN_NS
                )
            return {"t_ns": now_ns(), "evidence": self._seen(args["fault"])}
        return await self._agent.ask(do, **args)

    def _tell(self, node: str, order: Mapping[str, object]) -> None:
        """Send an order to the newest worker of the node; an earlier one is dead."""
        listening = sorted(self._files(node, "order"), key=lambda p: p.stat().st_mtime_ns)
        try:
            line = os.open(listening[-1], os.O_WRONLY | os.O_NONBLOCK)
        except (IndexError, OSError) as error:
            raise EnvironmentFailed(f"order to {node}: connection failed: {error}") from error
        os.write(line, json.dumps(dict(order)).encode() + b"\n")
        os.close(line)

    def _seen(self, fault: str) -> dict[str, Json]:
        rows: list[dict[str, Json]] = []
        for node in self._given[fault]:
            for path in self._files(node, "done"):
                rows += [json.loads(line) for line in path.read_text().splitlines()]
        mine = [row for row in rows if row.pop("fault") == fault]
        return {"effective": any("refused" not in row for row in mine), "done": mine}

    def _files(self, node: str, kind: str) -> list[Path]:
        """Files of a node's workers: of c1 those of c1 and c1.1, and none of c10."""
        return [path for path in self._folder.glob(f"{node}.*") if path.suffix == f".{kind}"]
