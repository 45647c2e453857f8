"""A fault agent as tests start it: a process of its own, spoken to over its pipes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast import catalogue
from holdfast.harness.core.loading import load
from holdfast.nemesis.agent import request_forms
from holdfast.nemesis.agent.halves import loaded
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.parts import parts
from holdfast.nemesis.agent.request_forms import REQUESTS

SRC = Path(__file__).resolve().parents[2] / "src"
ARGV = [sys.executable, "-S", "-P", "-m", "holdfast.nemesis.agent"]
HALVES = list(
    dict.fromkeys(half for row in catalogue.NEMESES.values() for half in load(row.entry).agent)
)
"""The halves of all built-in kinds of fault, as a driver names them."""
FORMS = {
    **REQUESTS,
    **{do: form for part in parts(World()) for do, form in part.forms.items()},
    **{half.request: half.form for half in map(loaded, HALVES)},
}


def checked(request: object) -> tuple[str, dict[str, Any]]:
    """As an agent with all built-in halves checks it. Errors: Refused."""
    return request_forms.checked(request, FORMS)


class AgentProcess:
    """Sends one request, reads one reply. Leaving the `with` closes its input and waits for it."""

    def __init__(
        self, prefix: Sequence[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [*prefix, *ARGV],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(SRC), "PATH": os.environ["PATH"], **(environ or {})},
        )
        self._sent = 0

    def __enter__(self) -> AgentProcess:
        self.line(json.dumps({"id": 0, "do": "load", "halves": HALVES}))
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()

    def line(self, text: str) -> dict[str, Any]:
        """The reply to one raw line."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        assert select.select([self.process.stdout], [], [], 10)[0], "the agent says nothing"
        reply: dict[str, Any] = json.loads(self.process.stdout.readline())
        return reply

    def ask(self, do: str, **args: Any) -> dict[str, Any]:
        """The whole reply to one request, refused or not."""
        self._sent += 1
        reply = self.line(json.dumps({"id": self._sent, "do": do, **args}))
        assert reply["id"] == self._sent
        return reply

    def do(self, do: str, **args: Any) -> dict[str, Any]:
        """The evidence of one request that must succeed."""
        reply = self.ask(do, **args)
        assert reply["ok"], reply
        evidence: dict[str, Any] = reply["evidence"]
        return evidence

    def error(self, do: str, **args: Any) -> str:
        """What a request that must be refused says."""
        reply = self.ask(do, **args)
        assert not reply["ok"], reply
        return str(reply["error"])
