"""Faults of one client in whole runs: each is seen to bite, on processes and in containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import needs
from tests.front.test_runs import run

FAULTS = ("reset", "reply-loss", "delay", "black-hole", "hang-up", "cancel", "stall", "fork")
ALL = ",".join(f"{name}:every=4s,for={'3s' if name == 'fork' else '800ms'}" for name in FAULTS)
"""A child has time to come to its own end, on a busy machine too."""


def effective_faults(
    tmp_path: Path, backend: str, library: str, *words: str
) -> dict[str, list[dict[str, object]]]:
    """The evidence of every effective window, by kind of fault."""
    needs.namespaces()
    needs.binary("redis-server")
    system = ("--backend", backend, "--system", "redis", "--library", library, *words)
    ran = run(tmp_path, *system, "--nemesis", ALL, "--time", "13s", codes=(0, 3))
    rows = [json.loads(line) for line in (ran.run_dir / "faults.jsonl").read_text().splitlines()]
    assert not [row for row in rows if row["event"] == "failed"]
    found: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        if row["event"] == "healed":
            found.setdefault(row["do"], []).extend([row["evidence"]] if row["effective"] else [])
    return found


def rows_of(evidence: dict[str, object]) -> list[dict[str, object]]:
    """What the clients themselves said of one fault."""
    done = evidence["done"]
    assert isinstance(done, list)
    return done


@pytest.mark.real_server
def test_every_fault_of_a_client_takes_effect(tmp_path: Path) -> None:
    found = effective_faults(tmp_path, "local", "redis==8.1.0", "--set", "api=asyncio")
    assert all(found[name] for name in FAULTS if name != "fork"), found
    assert found["fork"] == []


@pytest.mark.docker
def test_they_bite_in_containers_and_a_blocking_call_is_not_cancelled(tmp_path: Path) -> None:
    needs.engine()
    found = effective_faults(tmp_path, "docker", "redis==8.1.0")
    assert all(found[name] for name in FAULTS if name != "cancel"), found
    assert found["cancel"] == []
    assert {row["end"] for fork in found["fork"] for row in rows_of(fork)} == {"exit 0"}
