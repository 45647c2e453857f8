"""The fault agents of all hosts behind one interface: a request goes to the hosts of its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.clusters.backends.ssh.remote_host import RemoteHost
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json

ANY_BITES = ("cut", "link")
"""Faults that are effective if they took effect on one host; others must on each."""


class Agents:
    """Responds to requests as `nemesis/agent` does, with t_ns on the driver's clock: by then the
    fault was active on every target host. `took_ns` in the evidence is the slowest agent's time."""

    def __init__(self, remotes: Sequence[RemoteHost]) -> None:
        self._remotes = remotes
        self._faults: dict[str, tuple[str, list[RemoteHost]]] = {}
        self._next = 0

    async def ask(self, do: str, **args: Any) -> dict[str, Json]:
        """One request; EnvironmentFailed if a host rejects it or is lost."""
        parts = self._parts(do, args)
        if "fault" in args and do not in ("observe", "heal"):
            self._faults[args["fault"]] = (do, [remote for remote, _ in parts])
        answers = await asyncio.gather(
            *(self._one(remote, do, part) for remote, part in parts), return_exceptions=True
        )
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        if failed:
            if "fault" in args and do not in ("observe", "heal"):
                await self._undo(args["fault"])
            raise failed[0]
        told = [answer for answer in answers if not isinstance(answer, BaseException)]
        kind = self._faults.get(args.get("fault", ""), (do, []))[0]
        evidence = merged([answer["evidence"] for answer in told], kind in ANY_BITES)
        if "fault" in args:
            evidence["took_ns"] = max(int(answer["took_ns"]) for answer in told)
        return {"ok": True, "t_ns": now_ns(), "evidence": evidence}

    async def close(self) -> None:
        """Heals everything on every remaining host."""
        for remote in self._remotes:
            if not remote.lost:
                try:
                    await self._one(remote, "heal_all", {})
                except EnvironmentFailed:
                    continue

    async def _undo(self, fault: str) -> None:
        """Heals a fault on the hosts that injected it while another one failed."""
        _, remotes = self._faults[fault]
        works = [self._one(remote, "heal", {"fault": fault}) for remote in remotes]
        await asyncio.gather(*works, return_exceptions=True)

    def _parts(self, do: str, args: Mapping[str, Any]) -> list[tuple[RemoteHost, dict[str, Any]]]:
        """Each host that a request targets, with its part of the request."""
        if do in ("observe", "heal"):
            _, remotes = self._faults[args["fault"]]
            return [(remote, dict(args)) for remote in remotes]
        parts = []
        for remote in self._remotes:
            names = {node.name for node in remote.nodes}
            part = dict(args)
            if do == "adopt":
                if args["node"] not in names:
                    continue
            elif "links" in args:
                part["links"] = [link for link in args["links"] if link["node"] in names]
                part["nodes"] = list(dict.fromkeys(link["node"] for link in part["links"]))
                if not part["links"]:
                    continue
            elif "nodes" in args:
                part["nodes"] = [node for node in args["nodes"] if node in names]
                if not part["nodes"]:
                    continue
            parts.append((remote, part))
        return parts

    async def _one(self, remote: RemoteHost, do: str, part: Mapping[str, Any]) -> dict[str, Any]:
        self._next += 1
        line = {"id": self._next, "do": do, **part}
        answer: dict[str, Json] = (await remote.ask("agent", line=line))["answer"]
        if not answer.get("ok"):
            raise EnvironmentFailed(
                f"fault agent of {remote.host.name}: {do}: {answer.get('error', 'no reason given')}"
            )
        return answer


def merged(evidence: Sequence[Mapping[str, Any]], any_effective: bool) -> dict[str, Any]:
    """The evidence of several agents about one fault: counts added, tables and lists joined."""
    found: dict[str, Any] = {}
    for one in evidence:
        for name, value in one.items():
            before = found.get(name)
            if before is None:
                found[name] = value
            elif name == "effective":
                found[name] = before or value if any_effective else before and value
            elif isinstance(value, dict):
                found[name] = {**before, **value}
            elif isinstance(value, int) and not isinstance(value, bool):
                found[name] = before + value
            elif isinstance(value, list):
                found[name] = [*before, *value]
    return found
