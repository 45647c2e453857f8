"""Abilities of the fault agent on this host, queried from an agent started for that."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.harness.core.json_value import Json

AGENT = ("-S", "-P", "-m", "holdfast.nemesis.agent")
WITHIN_S = 10
REQUESTS = ("cut", "link", "pause", "kill", "set_clock", "syscall")
"""Requests of the fault agent that a host may not support."""
DISK = "disk"
SOURCES = Path(__file__).parents[3]
"""The folder that the package is imported from; not resolved: a checkout has links in it."""


def cut(prefix: Sequence[str] = ()) -> str | None:
    """Why the agent cannot drop packets between nodes, or None."""
    told = of_agent(prefix)["cut"]
    return None if told is True else str(told)


def disk(prefix: Sequence[str] = ()) -> str | None:
    """Why the agent cannot give servers disks of their own, or None."""
    told = of_agent(prefix)[DISK]
    return None if told is True else str(told)


def of_agent(prefix: Sequence[str] = ()) -> Mapping[str, Json]:
    """Ability -> True, or the reason why not; `prefix` are words before the agent's command line.

    Queried once per process for each PATH, because it takes 0.2 s.
    """
    return _asked(tuple(prefix), os.environ.get("PATH", os.defpath))


@functools.cache
def _asked(prefix: tuple[str, ...], path: str) -> Mapping[str, Json]:
    try:
        done = subprocess.run(
            [*prefix, sys.executable, *AGENT],
            input='{"id": 1, "do": "hello"}\n',
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCES), "PATH": path},
            timeout=WITHIN_S,
        )
        if not done.stdout:
            return _nothing(_last_line(done.stderr) or f"exit code {done.returncode}")
        told: dict[str, Json] = json.loads(done.stdout.splitlines()[0])["evidence"]
    except (OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
        return _nothing(repr(error))
    return told


def _nothing(why: str) -> Mapping[str, Json]:
    return dict.fromkeys((*REQUESTS, DISK), f"no response from the fault agent: {why}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
