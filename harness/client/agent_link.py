"""The driver's end of the fault agent: JSON lines to a process of its own, one answer a request."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.harness.core.errors import EnvironmentFailed

ANSWER_WITHIN_S = 10.0


class AgentLink:
    """Requests to one fault agent, in order. The agent heals everything when this end closes."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._next = 0
        self._turn = asyncio.Lock()

    @staticmethod
    async def start(argv: Sequence[str], env: Mapping[str, str], log: Path) -> AgentLink:
        """Start the agent in a session of its own, so that a terminal's ^C passes it by."""
        with log.open("ab") as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **env},
                    start_new_session=True,
                    limit=1 << 22,
                )
            except OSError as error:
                raise EnvironmentFailed(f"fault agent: cannot start {argv[0]}: {error}") from error
        return AgentLink(process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        """One request; the agent's answer if it is ok, else EnvironmentFailed with its words."""
        async with self._turn:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._next += 1
            line = json.dumps({"id": self._next, "do": do, **args}).encode() + b"\n"
            try:
                self._process.stdin.write(line)
                await self._process.stdin.drain()
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    raw = await self._process.stdout.readline()
            except (OSError, TimeoutError) as error:
                raise EnvironmentFailed(
                    f"fault agent: no answer to {do}: {error!r}; see {self._log}"
                ) from error
        if not raw:
            raise EnvironmentFailed(f"fault agent: it ended; see {self._log}")
        answer: dict[str, Any] = json.loads(raw)
        if not answer.get("ok"):
            raise EnvironmentFailed(f"fault agent: {do}: {answer.get('error', 'no reason given')}")
        return answer

    async def close(self) -> None:
        """Close its input, which makes it heal everything and leave; kill it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
