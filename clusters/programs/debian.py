"""Locks for the JVM from Debian's packages: the jars that are installed, and our program compiled.

The version under test is the installed one; nothing is fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.clusters.libraries import environments
from holdfast.harness.core.errors import EnvironmentFailed, UsageError

PREFIX = "deb:"
JARS = Path("/usr/share/java")
COMPILER = "default-jdk-headless"
COMPILE_S = 120
NEEDED = (
    "curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
    "guava", "slf4j-api", "slf4j-nop", "jackson-core", "jackson-databind", "jackson-annotations",
    "netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver",
    "netty-transport", "netty-transport-native-epoll", "netty-transport-native-unix-common",
)  # fmt: skip
SMALL = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""One client of several on one machine."""


def missing() -> str | None:
    """Why this machine cannot compile and run the programs, and what to do; None if it can."""
    lacking = [name for name in ("java", "javac") if shutil.which(name) is None]
    if lacking:
        return f"{' and '.join(lacking)} missing: install Debian's package {COMPILER}"
    return None


def problem(pins: Sequence[str]) -> str | None:
    """Why the packages of these pins, as in `libcurator-recipes-java@5.4.0`, cannot be used."""
    for pin in pins:
        package, _, wanted = pin.partition("@")
        found = _installed(package)
        if found is None:
            return f"missing: install Debian's package {package}"
        if not re.match(rf"{re.escape(wanted)}(?![\w])", found):
            return f"{package} is installed in version {found}, not {wanted}"
    return None


def fetch(pins: Sequence[str], program: Path, tell: Callable[[str], None]) -> Path:
    """The folder of the compiled program, made on first use.

    UsageError if a package is not installed in the version of its pin, EnvironmentFailed if the
    compiler fails.
    """
    lacking = problem(pins)
    if lacking:
        raise UsageError(lacking)
    sources = sorted(program.parent.glob("*.java"))
    found = hashlib.sha256("\n".join(versions(pins)).encode())
    for path in sources:
        found.update(path.read_bytes())
    target = environments.cache() / found.hexdigest()[:16]
    if target.is_dir():
        return target
    tell(f"compiling {program.name} with javac")
    with environments.scratch(target) as part:
        argv = ["javac", "-d", str(part), "-cp", _class_path(), *map(str, sources)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if done.returncode:
            raise EnvironmentFailed(f"javac could not compile {program.name}: {done.stderr[-300:]}")
        return environments.moved(part, target)


def versions(pins: Sequence[str]) -> list[str]:
    """The installed versions of the packages of pins, as in `deb:NAME@VERSION`."""
    names = [pin.partition("@")[0] for pin in pins]
    return [f"{PREFIX}{name}@{_installed(name)}" for name in names]


def argv(program: str, target: Path) -> list[str]:
    """The words that start a compiled program; without more words it only loads its classes."""
    return ["java", *SMALL, "-cp", f"{target}{os.pathsep}{_class_path()}", Path(program).stem]


def _class_path() -> str:
    return os.pathsep.join(str(JARS / f"{name}.jar") for name in NEEDED)


def _installed(package: str) -> str | None:
    """The installed version of a Debian package."""
    if shutil.which("dpkg-query") is None:
        return None
    words = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Version}", package]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return said[2:].strip() if said.startswith("ii") else None
