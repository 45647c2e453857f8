"""Starts a PostgreSQL server on a node; creates its files the first time.

Run as `python -S -m holdfast.clusters.systems.postgres.server --config JSON`, where JSON is
{"data", "address"} and may name another "port", another value for one of SETTINGS, and the user's
"own" settings, as JSON again. The files
are in `data` if this user may write there, else in the node's own folder for data. With "copy_of",
the address of a primary, they are a copy of its files and the server is its standby. Exit code 1
with the last lines of the failed step.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.clusters.systems.postgres import DATABASE, PORT, USER

PACKAGED = Path("/usr/lib/postgresql")
ELSEWHERE = Path("/var/tmp/holdfast-postgres")
INIT_WITHIN_S = 60
COPY_WITHIN_S, COPY_EVERY_S = 18, 0.1
HERE, DONE = "files", "files-are-made"
STANDBY = "standby.signal"
"""With this file among its own a server starts as a standby; a promotion removes it."""
REPLICATION = (
    "primary_conninfo",
    "synchronous_standby_names",
    "wal_retrieve_retry_interval",
    "wal_level",
)
"""Settings that a server has besides SETTINGS if they are given: with a standby, with a slot."""

SETTINGS: dict[str, str] = {
    "port": str(PORT),
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "100",
    "shared_buffers": "16MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "2000",
    "client_connection_check_interval": "500",
}
"""Every commit is synced; a client that is gone is noticed within about 3 s, waiting or not."""

SCHEMA = (
    "create table locks (name text primary key); create sequence tokens;"
    " create table leases (name text primary key, owner text not null, until_us bigint not null);\n"
)


def binary(name: str) -> str | None:
    """Path of a program of the server, in the newest installed version; None if missing."""
    versions = sorted(PACKAGED.glob(f"*/bin/{name}"), key=lambda path: path.parts[-3])
    return str(versions[-1]) if versions else shutil.which(name)


def prepare(postgres: str, initdb: str, files: Path) -> None:
    """Creates the files of a new server atomically.

    Raises OSError and subprocess.SubprocessError.
    """
    shutil.rmtree(files, ignore_errors=True)
    made = [initdb, "-D", str(files), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    run(*made, "--no-instructions")
    with (files / "pg_hba.conf").open("a") as allowed:
        allowed.write(f"host all,replication {USER} samenet trust\n")
    run(postgres, "--single", "-D", str(files), DATABASE, words=SCHEMA)
    (files.parent / DONE).touch()


def copy(primary: str, files: Path) -> None:
    """Copies the files of a running primary, as those of its standby. It may not run yet, so that
    this is repeated within a bound.

    Raises OSError and subprocess.SubprocessError.
    """
    program = binary("pg_basebackup") or "pg_basebackup"
    source = (f"--host={primary}", f"--port={PORT}", f"--username={USER}")
    end_s = time.monotonic() + COPY_WITHIN_S
    while True:
        shutil.rmtree(files, ignore_errors=True)
        try:
            run(program, *source, "--checkpoint=fast", "-D", str(files))
            break
        except subprocess.CalledProcessError:
            if time.monotonic() > end_s:
                raise
            time.sleep(COPY_EVERY_S)
    (files / STANDBY).touch()
    (files.parent / DONE).touch()


def run(*argv: str, words: str = "") -> None:
    """One step of the preparation; its output goes to the log."""
    subprocess.run(argv, input=words, text=True, check=True, timeout=INIT_WITHIN_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Does not return on success: this process becomes the server."""
    parser = argparse.ArgumentParser(description="a PostgreSQL server, made when it is missing")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config: Mapping[str, str] = json.loads(parser.parse_args(argv).config)
    postgres, initdb = binary("postgres"), binary("initdb")
    if postgres is None or initdb is None:
        sys.stderr.write("postgres is not installed on this node\n")
        return 1
    wanted = Path(config["data"])
    home = wanted if os.access(wanted, os.W_OK) else ELSEWHERE
    home.mkdir(exist_ok=True)
    try:
        if not (home / DONE).exists() and "copy_of" in config:
            copy(config["copy_of"], home / HERE)
        elif not (home / DONE).exists():
            prepare(postgres, initdb, home / HERE)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"cannot make the files of a server: {error}\n")
        return 1
    port = config.get("port", str(PORT))
    chosen = {name: config.get(name, value) for name, value in SETTINGS.items()}
    chosen |= {name: config[name] for name in REPLICATION if name in config}
    chosen |= json.loads(config.get("own", "{}"))
    settings = {**chosen, "listen_addresses": config["address"], "port": port}
    words = [f"--{name}={value}" for name, value in settings.items()]
    return os.execv(postgres, [postgres, "-D", str(home / HERE), *words])


if __name__ == "__main__":
    sys.exit(main())
