"""Starts a MariaDB server on a node; creates its files the first time.

Run as `python -S -m holdfast.clusters.systems.mariadb.server --config JSON`, where JSON is {"data",
"address"} and may have another value for one of SETTINGS. Exit code 1 with the last lines of the
failed step.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.clusters.systems.mariadb import DATABASE, PORT

INSTALL_WITHIN_S = 60
HERE, DONE, FIRST = "files", "files-are-made", "first.sql"
PATHS = "/usr/sbin:/sbin"

SETTINGS: dict[str, str] = {
    "port": str(PORT),
    "socket": "lock.sock",
    "innodb-flush-log-at-trx-commit": "1",
    "innodb-buffer-pool-size": "16M",
    "innodb-log-file-size": "8M",
    "innodb-rollback-on-timeout": "OFF",
    "performance-schema": "OFF",
}
FLAGS = ("--skip-grant-tables", "--skip-name-resolve", "--skip-log-bin")
"""No login, because only the run can reach the server."""
UNSYNCED = ("--innodb-flush-method=nosync", "--innodb-log-file-size=8M")
"""for files that are discarded if their creation does not finish"""

SCHEMA = (
    f"create database if not exists {DATABASE};\n"
    f"create table if not exists {DATABASE}.locks (name varchar(200) primary key) engine=innodb;\n"
    f"create table if not exists {DATABASE}.leases (name varchar(200) primary key,"
    " owner varchar(200) not null, until_us bigint not null) engine=innodb;\n"
    f"create sequence if not exists {DATABASE}.tokens cache 0;\n"
)
"""one statement per line, as the server reads its init file"""


def binary(name: str) -> str | None:
    """Path of a program of the server, None if it is not installed."""
    return shutil.which(name) or shutil.which(name, path=PATHS)


def own() -> list[str]:
    """Arguments that let root start it."""
    return ["--user=root"] if os.geteuid() == 0 else []


def prepare(install: str, data: Path) -> None:
    """Creates the files of a new server atomically.

    Raises OSError and subprocess.SubprocessError.
    """
    shutil.rmtree(data / HERE, ignore_errors=True)
    made = [install, "--no-defaults", f"--datadir={data / HERE}", "--skip-test-db", *own()]
    subprocess.run(
        [*made, *UNSYNCED], stdin=subprocess.DEVNULL, check=True, timeout=INSTALL_WITHIN_S
    )
    (data / FIRST).write_text(SCHEMA)
    os.sync()
    (data / DONE).touch()


def main(argv: Sequence[str] | None = None) -> int:
    """Does not return on success: this process becomes the server."""
    parser = argparse.ArgumentParser(description="a MariaDB server, made when it is missing")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config: Mapping[str, str] = json.loads(parser.parse_args(argv).config)
    mariadbd, install = binary("mariadbd"), binary("mariadb-install-db")
    if mariadbd is None or install is None:
        sys.stderr.write("mariadb-server is not installed on this node\n")
        return 1
    data = Path(config["data"])
    try:
        if not (data / DONE).exists():
            prepare(install, data)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"cannot make the files of a server: {error}\n")
        return 1
    settings = {
        **{name: config.get(name, value) for name, value in SETTINGS.items()},
        "datadir": str(data / HERE),
        "init-file": str(data / FIRST),
        "bind-address": config["address"],
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    return os.execv(mariadbd, [mariadbd, "--no-defaults", *words, *FLAGS, *own()])


if __name__ == "__main__":
    sys.exit(main())
