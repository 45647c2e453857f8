"""Snapshots of etcd by its own command, etcdctl: saved from one member, restored for each."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from holdfast.clusters.systems.etcd.json_gateway import User
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import REPLACE, SNAPSHOT

BINARY = "etcdctl"
WITHIN_S = 30


def operations() -> dict[str, str]:
    """Snapshots and members, with the reason where etcdctl is missing (port `Operated`)."""
    missing = shutil.which(BINARY) is None
    return {
        SNAPSHOT: "etcdctl is not installed: install etcd-client" if missing else "",
        REPLACE: "",
    }


async def save(endpoint: str, to: Path, user: User | None = None) -> None:
    """Saves a running member's store, as a user if it demands a login. Errors:
    EnvironmentFailed."""
    login = () if user is None else ("--user", f"{user.name}:{user.password}")
    await _etcdctl("snapshot", "save", str(to), "--endpoints", endpoint, *login)


async def restore(name: str, peers: Mapping[str, str], token: str, source: Path, to: Path) -> None:
    """Makes the data folder of one member of a new cluster. Errors: EnvironmentFailed."""
    await _etcdctl(
        "snapshot", "restore", str(source),
        "--name", name,
        "--initial-cluster", ",".join(f"{peer}={url}" for peer, url in peers.items()),
        "--initial-cluster-token", token,
        "--initial-advertise-peer-urls", peers[name],
        "--data-dir", str(to),
    )  # fmt: skip


async def _etcdctl(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        BINARY,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ETCDCTL_API": "3"},
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            _, errors = await process.communicate()
    except TimeoutError:
        raise EnvironmentFailed(f"etcdctl {words[0]}: no end within {WITHIN_S} s") from None
    finally:
        if process.returncode is None:  # also of a run that is ended: it goes on writing else
            process.kill()
            await process.wait()
    if process.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise EnvironmentFailed(f"etcdctl {' '.join(words[:4])}: {''.join(last)[:300]}")
