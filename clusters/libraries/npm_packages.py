"""Installs servers that are npm packages, pinned, each set in a folder of its own.

Their install scripts do not run. The packages that they depend on are those that npm chooses.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.clusters.libraries.environments import ATTEMPTS, SILENT_S, cache
from holdfast.harness.core.errors import EnvironmentFailed

INSTALL = (
    "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-progress", "--no-save",
)  # fmt: skip


def missing() -> str | None:
    """Why this machine cannot run npm packages, and what to do; None if it can."""
    lacking = [name for name in ("node", "npm") if shutil.which(name) is None]
    if lacking:
        return f"{' and '.join(lacking)} missing: install Debian's packages nodejs and npm"
    return None


def folder(pins: Sequence[str]) -> Path:
    """Folder of exactly these pins, as in `azurite@3.35.0`, whether it exists or not."""
    exact = "\n".join(["npm:", *sorted(pins)])
    return cache() / hashlib.sha256(exact.encode()).hexdigest()[:16]


def problem(pins: Sequence[str]) -> str | None:
    """Why the folder of these pins cannot be used, and what to do; None if it can."""
    target = folder(pins)
    if not target.is_dir():
        return "not fetched yet; the first run fetches it with npm"
    lost = [pin for pin in pins if not _there(target, pin)]
    if not lost:
        return None
    return f"broken: {', '.join(lost)} missing in {target}; remove that folder, a run fetches it"


def fetch(pins: Sequence[str], tell: Callable[[str], None] = lambda line: None) -> Path:
    """The folder that holds these pins; fetched with npm on first use, and complete at once.

    `tell` receives lines of progress. EnvironmentFailed with npm's last error if ATTEMPTS attempts
    failed.
    """
    target = folder(pins)
    if target.is_dir():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    wrong = ""
    for attempt in range(1, ATTEMPTS + 1):
        again = f" (attempt {attempt} of {ATTEMPTS})" if attempt > 1 else ""
        tell(f"fetching {', '.join(pins)} with npm{again}")
        part = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=cache()))
        try:
            wrong = _installed([*INSTALL, f"--prefix={part}", *pins])
            if not wrong:
                part.chmod(0o755)
                with suppress(OSError):  # another process was faster
                    part.rename(target)
                return target
        finally:
            shutil.rmtree(part, ignore_errors=True)
    raise EnvironmentFailed(
        f"npm could not fetch {', '.join(pins)} in {ATTEMPTS} attempts: {wrong}"
    )


def _there(target: Path, pin: str) -> bool:
    name, _, version = pin.rpartition("@")
    try:
        said = json.loads((target / "node_modules" / name / "package.json").read_bytes())
    except (OSError, ValueError):
        return False
    return bool(said.get("version") == version)


def _installed(argv: Sequence[str]) -> str:
    """Why npm failed, "" if it did not."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SILENT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    errors = [line for line in done.stderr.splitlines() if line.lower().startswith("npm err")]
    return "" if done.returncode == 0 else (errors or ["no output"])[-1]
