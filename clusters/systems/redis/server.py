"""Starts a redis-server on a node and checks that it responds; shared by all its systems."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from holdfast.clusters.systems.config_files import (
    ADDRESS,
    CONFIG,
    CREDENTIALS,
    FOLDER,
    IN_FRONT,
    LOG,
    OTHER_FILES,
    ConfigFile,
    by_words,
    chosen_by,
)
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.resp import Link, NoAnswer, NotSent, Refused
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Node, Place

BINARY = "redis-server"
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
PERSISTENCE: dict[str, tuple[str, ...]] = {
    "stock": (),
    "always": ("--appendonly", "yes", "--appendfsync", "always"),
    "everysec": ("--appendonly", "yes", "--appendfsync", "everysec"),
    "unsynced": ("--appendonly", "yes", "--appendfsync", "no"),
    "none": ("--save", "", "--appendonly", "no"),
}
"""Persistence of the server: as shipped (snapshots); a log of which every write is synced, one
sync a second, or when the kernel writes it back; none."""
LOGGED = [name for name, words in PERSISTENCE.items() if "yes" in words]
TOKEN_SUFFIX = ":token"
"""End of the key of a lock's token counter."""
UNCHANGED = "rdb_changes_since_last_save:0"
ANSWER_WITHIN_S = 0.5


CONFIG_FILE = ConfigFile(
    lines=by_words,
    owned={
        "bind*": ADDRESS, "port": ADDRESS, "tls-*": ADDRESS, "unixsocket*": ADDRESS,
        "dir": FOLDER, "daemonize": IN_FRONT, "supervised": IN_FRONT, "pidfile": IN_FRONT,
        "logfile": LOG, "syslog-enabled": LOG, "requirepass": CREDENTIALS, "user": CREDENTIALS,
        "aclfile": CREDENTIALS, "rename-command": "the clients use the commands by their names",
        "include": OTHER_FILES, "loadmodule": OTHER_FILES,
        "cluster-*": "this system has no cluster",
        "replicaof": "Holdfast sets who replicates whom",
        "slaveof": "Holdfast sets who replicates whom",
        "protected-mode": "clients connect from other addresses",
        "save": chosen_by("persistence"), "append*": chosen_by("persistence"),
    },
)  # fmt: skip


def redis_server(
    node: Node, place: Place, persistence: str, options: Mapping[str, str] = NO_OPTIONS
) -> Command:
    """One server with its data in data/<node> of the run's folder; options: those of its system."""
    data = place.run_dir / "data" / node.name
    data.mkdir(parents=True, exist_ok=True)
    own = [] if CONFIG not in options else [str(data / "own.conf")]
    for file in own:
        Path(file).write_text(options[CONFIG])
    argv = (
        BINARY,
        *own,
        "--bind", node.address,
        "--port", str(PORT),
        "--dir", str(data),
        "--protected-mode", "no",
        "--daemonize", "no",
        *PERSISTENCE[persistence],
    )  # fmt: skip
    return Command(argv=argv, log=place.run_dir / "logs" / node.name / "redis.log")


def missing() -> str | None:
    """Why this machine cannot start one outside a container; None if it can."""
    if shutil.which(BINARY) is None:
        return f"{BINARY} is not installed; install it, or use --backend docker"
    return None


async def said(address: str, port: int, *words: str) -> Sequence[str] | None:
    """The words of a server's response to one command, None if it does not respond in time."""
    link = Link(address, port)
    try:
        answer = await link.ask(*words, within_s=ANSWER_WITHIN_S)
    except (NotSent, NoAnswer, Refused):
        return None
    finally:
        link.close()
    return [str(part) for part in answer] if isinstance(answer, list) else [str(answer)]


async def flush(server: Node, persistence: str) -> None:
    """Saves the server's memory to its file, unless a log has every write or nothing was written
    since the last time: the file of the same state would have other bytes. Errors:
    EnvironmentFailed."""
    if persistence in LOGGED:
        return
    lines = await said(server.address, PORT, "INFO", "persistence")
    if lines and UNCHANGED in "".join(lines).split():
        return
    if await said(server.address, PORT, "SAVE") != ["OK"]:
        raise EnvironmentFailed(f"{server.name}: redis-server did not SAVE")


async def counters(server: Node) -> int | None:
    """The sum of all token counters; None without a response."""
    names = await said(server.address, PORT, "KEYS", f"*{TOKEN_SUFFIX}")
    if names is None:
        return None
    values = await said(server.address, PORT, "MGET", *names) if names else []
    return None if values is None else sum(int(value) for value in values)


async def advance(server: Node, by: int) -> None:
    """Advances every token counter. Errors: EnvironmentFailed."""
    for name in await said(server.address, PORT, "KEYS", f"*{TOKEN_SUFFIX}") or ():
        if await said(server.address, PORT, "INCRBY", name, str(by)) is None:
            raise EnvironmentFailed(f"{server.name}: no response to INCRBY")
