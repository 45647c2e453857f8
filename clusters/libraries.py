"""The client libraries under test, unmodified and pinned, each set in a folder of its own.

Only packages of pure Python so far: such a folder serves every interpreter, so the same one goes
to local processes and into containers by PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from holdfast.harness.errors import EnvironmentFailed

FETCH_WITHIN_S = 300


def cache() -> Path:
    """Where fetched libraries are kept between runs, per user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "holdfast" / "libraries"


def fetch(pins: Sequence[str], built: Sequence[str] = ()) -> Path:
    """The folder that holds exactly these pins; fetched with pip on first use.

    `built`: packages among them that are published as source only, so that pip has to build them.
    EnvironmentFailed with pip's last words if it cannot. A half-fetched folder is never seen.
    """
    name = hashlib.sha256("\n".join(sorted(pins)).encode()).hexdigest()[:16]
    target = cache() / name
    if target.is_dir():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache()))
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:",
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
