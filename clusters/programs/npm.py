"""Installs npm packages under test, unmodified and pinned, each set in its own folder.

Their install scripts do not run. The packages that they depend on are those that npm chooses; the
versions of all of them are recorded.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.clusters.libraries import environments
from holdfast.harness.core.errors import EnvironmentFailed, UsageError

PREFIX = "npm:"
OLDEST = 18
"""The major version of Node that the client programs need."""
INSTALLED = Path("node_modules") / ".package-lock.json"
"""Where npm records what it installed."""
FETCHED = re.compile(r"npm http fetch GET 200 \S+/-/(\S+\.tgz)")
NO_VERSION = ("code ETARGET", "code E404")
"""Errors of npm that another attempt would repeat."""


def missing() -> str | None:
    """Why this machine cannot run packages of npm, and what to do; None if it can."""
    lacking = [name for name in ("node", "npm") if shutil.which(name) is None]
    if lacking:
        return f"{' and '.join(lacking)} missing: install Debian's packages nodejs and npm"
    stdout = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=False
    ).stdout
    version = re.match(r"v(\d+)\.", stdout)
    if version is None or int(version[1]) < OLDEST:
        return f"node {stdout.strip() or 'of unknown version'} is too old: {OLDEST} is the oldest"
    return None


def folder(pins: Sequence[str]) -> Path:
    """Folder of exactly these pins, as in `redlock@4.2.0`, whether it exists or not."""
    exact = "\n".join([PREFIX, *sorted(pins)])
    return environments.cache() / hashlib.sha256(exact.encode()).hexdigest()[:16]


def problem(pins: Sequence[str]) -> str | None:
    """Why the folder of these pins cannot be used, and what to do; None if it can."""
    target = folder(pins)
    if not target.is_dir():
        return "not fetched yet; the first run fetches it with npm"
    there = installed(target)
    lost = [pin for pin in pins if f"{PREFIX}{pin}" not in there]
    if not lost:
        return None
    return f"broken: {', '.join(lost)} missing in {target}; remove that folder, a run fetches it"


def installed(target: Path) -> list[str]:
    """All packages of a folder, as in `npm:redlock@4.2.0`; [] if npm's record is not there."""
    try:
        packages = json.loads((target / INSTALLED).read_bytes())["packages"]
    except (OSError, ValueError, KeyError):
        return []
    # A package may be there in several versions: node_modules/a/node_modules/b.
    names = {
        f"{PREFIX}{path.rpartition('node_modules/')[2]}@{package.get('version', '').lstrip('v')}": 0
        for path, package in sorted(packages.items())
    }
    return [*names]


def fetch(pins: Sequence[str], tell: Callable[[str], None] = lambda line: None) -> Path:
    """The folder that holds these pins; fetched with npm on first use.

    The folder appears atomically. UsageError if there is no such version, else EnvironmentFailed
    with npm's last error if `environments.ATTEMPTS` attempts failed.
    """
    install = ["install", "--legacy-peer-deps", "--omit=optional"]
    return _fetched(folder(pins), install, pins, (), tell)


def fetch_servers(pins: Sequence[str], built: Sequence[str], tell: Callable[[str], None]) -> Path:
    """As `fetch`, of pins as in `npm:redlock@4.2.0`. UsageError on a machine without npm too."""
    why = missing()
    if why:
        raise UsageError(why)
    return fetch([pin.removeprefix(PREFIX) for pin in pins], tell)


def fetch_project(package: Path, tell: Callable[[str], None] = lambda line: None) -> Path:
    """The folder that holds the packages of a `package.json`, those of the lock file beside it if
    there is one; without those for development. Raises as `fetch`."""
    lock = package.with_name("package-lock.json")
    files = [path for path in (package, lock) if path.is_file()]
    content = b"\n".join([PREFIX.encode(), *(path.read_bytes() for path in files)])
    target = environments.cache() / hashlib.sha256(content).hexdigest()[:16]
    words = ["ci" if lock in files else "install", "--omit=dev"]
    return _fetched(target, words, (), files, tell)


def _fetched(
    target: Path,
    words: Sequence[str],
    pins: Sequence[str],
    files: Sequence[Path],
    tell: Callable[[str], None],
) -> Path:
    """The folder, which npm fills on first use from pins, or from files that are copied there."""
    if target.is_dir():
        return target
    argv = ["npm", *words, "--no-audit", "--no-fund", "--ignore-scripts",
            "--no-progress", "--loglevel=http"]  # fmt: skip
    what, wrong = ", ".join([*pins, *(path.name for path in files)]), ""
    for attempt in range(1, environments.ATTEMPTS + 1):
        again = f" (attempt {attempt} of {environments.ATTEMPTS})" if attempt > 1 else ""
        tell(f"fetching {what} with npm{again}")
        with environments.scratch(target) as part:
            for path in files:
                shutil.copy2(path, part / path.name)
            argv_here = [*argv, f"--prefix={part}", *pins]
            fetched, output = environments.installed(argv_here, _progress, tell)
            if fetched:
                return environments.moved(part, target)
        errors = [line for line in output.splitlines() if line.lower().startswith("npm err")]
        wrong = _words(errors[1] if len(errors) > 1 else output.strip().splitlines()[-1:])
        if any(code in line for line in errors for code in NO_VERSION):
            raise UsageError(f"npm finds no such package or version: {wrong}")
    raise EnvironmentFailed(
        f"npm could not fetch {what} in {environments.ATTEMPTS} attempts: {wrong or 'no output'}"
    )


def argv(program: str, target: Path, package: str) -> list[str]:
    """The words that start a client program; without more words it only loads its package."""
    return ["node", program, str(target), package]


def _progress(line: str) -> str:
    package = FETCHED.match(line)
    return f"fetched {package[1]}" if package else ""


def _words(error: str | list[str]) -> str:
    """One line of npm's errors without its prefix."""
    text = error if isinstance(error, str) else "".join(error)
    return re.sub(r"^npm (?:ERR!|error) (?:\w+ )?", "", text).strip()
