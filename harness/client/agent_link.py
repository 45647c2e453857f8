"""The driver's connection to a fault agent process: numbered requests as JSON lines.

A response belongs to the request whose number it carries. One that arrives after its request timed
out is dropped, so that it is never taken for the response to a later request.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, NoAnswer
from holdfast.harness.core.json_value import Json

ANSWER_WITHIN_S = 10.0
LONGEST_SHOWN = 80


class AgentLink:
    """Requests to one fault agent, in order. The agent heals everything when this end closes.

    within_s  timeout of a request
    """

    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._process = process
        self._log = log
        self.within_s = within_s
        self._next = 0
        self._turn = asyncio.Lock()

    @staticmethod
    async def start(
        argv: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        within_s: float = ANSWER_WITHIN_S,
    ) -> AgentLink:
        """Start the agent in its own session, so that a terminal's ^C does not reach it."""
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
        return AgentLink(process, log, within_s)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, do: str, **args: object) -> dict[str, Any]:
        """One request; the agent's response if it is ok, else EnvironmentFailed with its error.

        NoAnswer on timeout: whether the request took effect is unknown. AgentLost if it has exited.
        """
        async with self._turn:
            self._next += 1
            line = json.dumps({"id": self._next, "do": do, **args}).encode() + b"\n"
            try:
                async with asyncio.timeout(self.within_s):
                    answer = await self._answer(line, self._next)
            except TimeoutError as error:
                raise NoAnswer(
                    f"fault agent: no response to {do} within {self.within_s:g} s; see {self._log}"
                ) from error
            except OSError as error:
                raise AgentLost(f"fault agent: it exited ({error}); see {self._log}") from error
        if not answer.get("ok"):
            raise EnvironmentFailed(f"fault agent: {do}: {answer.get('error', 'no reason given')}")
        return answer

    async def _answer(self, line: bytes, number: int) -> dict[str, Json]:
        """Send a line; the response with its number. Responses to earlier requests are dropped."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line)
        await self._process.stdin.drain()
        while raw := await self._process.stdout.readline():
            try:
                answer: dict[str, Json] = json.loads(raw)
            except ValueError as error:
                shown = raw.decode(errors="replace").strip()[:LONGEST_SHOWN]
                raise AgentLost(
                    f"fault agent: no response, but {shown!r}; see {self._log}"
                ) from error
            if answer.get("id") == number:
                return answer
        raise AgentLost(f"fault agent: it exited; see {self._log}")

    async def until_lost(self) -> None:
        """Never returns; AgentLost as soon as the agent has exited."""
        code = await self._process.wait()
        raise AgentLost(f"fault agent: it exited with code {code}; see {self._log}")

    async def close(self) -> None:
        """Close its input, which makes it heal everything and exit; kill it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            await self._kill()

    async def _kill(self) -> None:
        """SIGKILL; EnvironmentFailed if it does not exit: it waits in the kernel, for a disk."""
        with suppress(ProcessLookupError):
            self._process.kill()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._process.wait()
        except TimeoutError as error:
            raise EnvironmentFailed(
                f"fault agent: process {self.pid} has not exited within {ANSWER_WITHIN_S:g} s of"
                " SIGKILL; remove it with `holdfast doctor --clean`"
            ) from error
