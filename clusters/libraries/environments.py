"""The client libraries under test, unmodified and pinned, each set in a folder of its own.

Only packages of pure Python so far: such a folder serves every interpreter, so the same one goes
to local processes and into containers by PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from holdfast.harness.core.errors import EnvironmentFailed

FETCH_WITHIN_S = 300


def cache() -> Path:
    """Where fetched libraries are kept between runs, per user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "holdfast" / "libraries"


def folder(pins: Sequence[str]) -> Path:
    """Where exactly these pins are kept, whether they are there or not."""
    return cache() / hashlib.sha256("\n".join(sorted(pins)).encode()).hexdigest()[:16]


def problem(pins: Sequence[str]) -> str | None:
    """Why the folder of these pins cannot be used as it is, and what helps; None if it can."""
    target = folder(pins)
    if not target.is_dir():
        return "not fetched yet; the first run with it does that, with pip"
    there = {_alike(path.name.removesuffix(".dist-info")) for path in target.glob("*.dist-info")}
    lost = [pin for pin in pins if _alike(pin.replace("==", "-")) not in there]
    if not lost:
        return None
    return f"broken: no {', '.join(lost)} in {target}; remove that folder, a run fetches it again"


def _alike(name: str) -> str:
    """A name and version as pip may write them, made comparable."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(pins: Sequence[str], built: Sequence[str] = ()) -> Path:
    """The folder that holds exactly these pins; fetched with pip on first use.

    `built`: packages among them that are published as source only, so that pip has to build them.
    EnvironmentFailed with pip's last words if it cannot. A half-fetched folder is never seen.
    """
    target = folder(pins)
    name = target.name
    if target.is_dir():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache()))
    argv = [sys.executable, "-P", "-m", "pip", "install",
            "--quiet", "--no-deps", "--only-binary=:all:",
            *(f"--no-binary={package}" for package in built),
            "--target", str(part), *pins]  # fmt: skip
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=FETCH_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise EnvironmentFailed(f"libraries: cannot fetch {', '.join(pins)}: {error}") from error
    if done.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        said = done.stderr.strip().splitlines()
        raise EnvironmentFailed(
            f"libraries: pip could not fetch {', '.join(pins)}: {said[-1] if said else 'no reason'}"
        )
    part.chmod(0o755)
    try:
        part.rename(target)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
    return target
