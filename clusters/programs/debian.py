"""Locks of Debian's packages: the versions that are installed, and our program compiled.

The version under test is the installed one; nothing is fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.clusters.libraries import environments
from holdfast.clusters.programs.golang import GO
from holdfast.clusters.programs.java import JAVA
from holdfast.clusters.programs.toolchain import Toolchain
from holdfast.harness.core.errors import EnvironmentFailed, UsageError

PREFIX = "deb:"
TOOLCHAINS: Mapping[str, Toolchain] = {".java": JAVA, ".go": GO}
"""The ending of a client program's file -> what compiles it."""


def of(program: str) -> Toolchain:
    """What compiles a client program."""
    return TOOLCHAINS[Path(program).suffix]


def problem(pins: Sequence[str]) -> str | None:
    """Why the packages of these pins, as in `libcurator-recipes-java@5.4.0`, cannot be used."""
    for pin in pins:
        package, _, wanted = pin.partition("@")
        version = _installed(package)
        if version is None:
            return f"missing: install Debian's package {package}"
        if not re.match(rf"{re.escape(wanted)}(?![\w])", version):
            return f"{package} is installed in version {version}, not {wanted}"
    return None


def fetch(pins: Sequence[str], program: Path, tell: Callable[[str], None]) -> Path:
    """The folder of the compiled program, made on first use.

    UsageError if a package is not installed in the version of its pin, EnvironmentFailed if the
    compiler fails.
    """
    lacking = problem(pins)
    if lacking:
        raise UsageError(lacking)
    toolchain = of(program.name)
    sources = toolchain.sources(program)
    digest = hashlib.sha256("\n".join(versions(pins)).encode())
    for path in sources:
        digest.update(path.read_bytes())
    target = environments.cache() / digest.hexdigest()[:16]
    if target.is_dir():
        return target
    note = f" ({toolchain.note})" if toolchain.note else ""
    tell(f"compiling {program.name} with {toolchain.name}{note}")
    with environments.scratch(target) as part:
        _compile(toolchain, sources, part)
        return environments.moved(part, target)


def _compile(toolchain: Toolchain, sources: Sequence[Path], target: Path) -> None:
    """Compile sources into a folder. EnvironmentFailed with the compiler's last output."""
    what = f"{toolchain.name} could not compile {sources[-1].name}"
    kept = environments.cache().parent / toolchain.name
    try:
        done = subprocess.run(
            toolchain.compiled(sources, target),
            env={**os.environ, **toolchain.environment(kept)},
            capture_output=True, text=True, timeout=toolchain.within_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailed(f"{what} within {toolchain.within_s} s") from late
    if done.returncode:
        raise EnvironmentFailed(f"{what}: {done.stderr[-300:]}")


def versions(pins: Sequence[str]) -> list[str]:
    """The installed versions of the packages of pins, as in `deb:NAME@VERSION`."""
    names = [pin.partition("@")[0] for pin in pins]
    return [f"{PREFIX}{name}@{_installed(name)}" for name in names]


def _installed(package: str) -> str | None:
    """The installed version of a Debian package."""
    if shutil.which("dpkg-query") is None:
        return None
    words = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Version}", package]
    stdout = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return stdout[2:].strip() if stdout.startswith("ii") else None
