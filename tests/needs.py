"""What a test needs of the machine, each as a call that skips the test with the reason if missing.

Under HOLDFAST_REQUIRE=all, as in CI, conftest.py makes a failure of every skip: a test that did not
run must not look like one that passed.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.clusters.backends.docker import engine as container_engine
from holdfast.clusters.backends.docker.image import build
from holdfast.clusters.backends.local import backend
from holdfast.clusters.libraries import environments as fetched
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.nemesis.agent.tracing import system_calls

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PYTHONS = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")


def binary(name: str) -> str:
    """Path of a command."""
    return _which(name) or _missing(f"needs the command {name}")


def unless(reason: str | None) -> None:
    """Nothing: a probe's reason, None if it found what it looked for."""
    if reason:
        _missing(reason)


def file(path: Path) -> Path:
    """A file that is not part of the repository."""
    return path if path.is_file() else _missing(f"needs {path.name}, kept beside the repository")


def on_disk(folder: Path) -> None:
    """A folder on a disk: pages of files on a tmpfs cannot be written back, so not reclaimed."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == number and after.split()[0] in ("tmpfs", "ramfs"):
            _missing(f"needs a folder on a disk: {folder} is in memory")


def axe(folder: Path) -> str:
    """The source of axe-core, an accessibility checker, which npm fetches by name into a folder."""
    npm = binary("npm")
    command = [npm, "install", "--no-save", "--prefix", str(folder), "axe-core"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = folder / "node_modules" / "axe-core" / "axe.min.js"
    if done.returncode or not found.is_file():
        _missing(f"needs axe-core from npm: {done.stderr.strip()[-200:]}")
    return found.read_text()


def ipv6() -> None:
    """A Python and a host that know IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as plug:
            plug.bind(("::1", 0))
    except OSError as error:
        _missing(f"needs IPv6: {error}")


def python(version: str, found: str | None) -> str:
    """A CPython of that version."""
    return found or _missing(f"needs CPython {version}: none on the path, none of pyenv")


def root() -> None:
    """The tests run as root."""
    if os.geteuid() != 0:
        _missing("needs root")


def namespaces() -> None:
    """Network namespaces and dropped packets, as root or as this user."""
    unless(_namespaces())


def tracing() -> None:
    """Processes whose system calls may be traced by another process of this user."""
    unless(system_calls.unsupported())


def tracing_of_others() -> None:
    """Root that may trace the processes of other users, which it may not in a container of CI."""
    root()
    tracing()
    if not system_calls.traces_others():
        _missing("needs CAP_SYS_PTRACE, to trace processes of other users")


def disks() -> None:
    """Disks of their own for servers: root, loop devices, ext4, a mount namespace."""
    unless(_disks())


def engine(image: bool = True) -> None:
    """A container engine that answers and, unless `image` is False, the node image."""
    unless(_engine(image))


def libraries(pins: Sequence[str], built: Sequence[str] = ()) -> Path:
    """The folder with client libraries under test, fetched where it is not there yet."""
    try:
        return fetched.fetch(pins, built)
    except EnvironmentFailed as absent:
        return _missing(str(absent))


def chromium() -> str:
    """Path of a Chromium, for pages."""
    found = next(filter(None, map(_which, BROWSERS)), None)
    return found or _missing("needs a browser: " + " or ".join(BROWSERS))


def ordinary_user() -> list[str]:
    """Words that run Python 3.11 or newer as the user `nobody`; the tests must run as root."""
    root()
    # setpriv itself keeps root's powers up to its exec; env, already without them, does the next.
    user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    become = [binary("setpriv"), *user, "--", binary("env")]
    for python in PYTHONS:
        words = [*become, python]
        probe = [*words, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if subprocess.run(probe, capture_output=True, cwd="/").returncode == 0:
            return words
    return _missing("needs a Python 3.11 that every user may run")


def _missing(reason: str) -> NoReturn:
    pytest.skip(reason)


def _which(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


@functools.cache
def _namespaces() -> str | None:
    return backend.precheck()


@functools.cache
def _disks() -> str | None:
    return backend.diskless()


@functools.cache
def _engine(image: bool) -> str | None:
    try:
        connection = container_engine.connect(timeout_s=5)
    except EnvironmentFailed as absent:
        return str(absent)
    if image and not connection.images(build.tag()):
        return f"needs the image {build.tag()}: make docker-image"
    return None
