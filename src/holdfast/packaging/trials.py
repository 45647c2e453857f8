"""Trials of a script: each in a process of its own, against new servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.clusters.backends.processes import DIES_WITH_DRIVER
from holdfast.clusters.libraries import environments
from holdfast.clusters.programs import npm
from holdfast.clusters.programs.golang import GO
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.packaging import servers
from holdfast.packaging.scripts import CANNOT_RUN, PIP, SHOWS, VIOLATION, Filled, file_name

TRIALS = 5
TOGETHER = 3
"""Trials at a time: most of one is waiting."""
TRIAL_S = 120
MODULES = "node_modules"
PIP_WORDS = PIP.split()[:-1]
CONTAINED = ("unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "--")
"""All servers that a script starts end with it, also if it is killed."""
Environment = tuple[Sequence[str], Mapping[str, str], Path | None]
"""The interpreter, variables besides those of this process, and a folder node_modules, if any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The end of one trial: the exit code of the script and what it printed."""

    code: int
    said: str

    @property
    def shown(self) -> bool:
        """Whether it named a violation, too: an interpreter that fails exits with 1 as well."""
        named = any(line.startswith(VIOLATION) for line in self.said.splitlines())
        return self.code == SHOWS and named

    @property
    def last(self) -> str:
        """Its last line."""
        return (self.said.strip().splitlines() or ["no output"])[-1]


def fetched(filled: Filled, pins: Sequence[str], built: Sequence[str] = ()) -> Environment:
    """An environment with exactly these packages, from the folders that Holdfast keeps."""
    if filled.language == "javascript":
        return ["node"], {}, npm.fetch(pins) / MODULES
    if filled.language == "go":
        return [], GO.environment(environments.cache().parent / GO.name), None
    if not pins:
        return [sys.executable, "-P"], {}, None
    folder = environments.fetch(pins, built)
    return [sys.executable, "-P"], {"PYTHONPATH": str(folder)}, None


@contextmanager
def fresh(filled: Filled, package: Path) -> Iterator[Environment]:
    """A new environment made of what a written folder names, and nothing else; removed after."""
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as scratch:
        if filled.language == "go":
            yield [], GO.environment(Path(scratch)), None
            return
        if filled.language == "javascript":
            shutil.copy(package / "package.json", scratch)
            _installed("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", at=scratch)
            yield ["node"], {}, Path(scratch) / MODULES
            return
        venv.create(scratch, with_pip=True)
        python = str(Path(scratch) / "bin" / "python")
        if not (package / "requirements.txt").exists():
            yield [python, "-I"], {}, None
            return
        requirements = str((package / "requirements.txt").resolve())
        _installed(python, "-I", "-m", *PIP_WORDS, requirements, at=scratch)
        yield [python, "-I"], {}, None


def _installed(*argv: str, at: str) -> None:
    done = subprocess.run(
        [*DIES_WITH_DRIVER, *argv], capture_output=True, text=True, check=False, cwd=at,
        env=_variables({}), timeout=environments.SILENT_S,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise EnvironmentFailed(f"{argv[0]} could not install the package's files: {last[0]}")


def tried(
    text: str, filled: Filled, server: str, environment: Environment, times: int = TRIALS
) -> list[Trial]:
    """The trials of a script, in any order."""

    def one(_: int) -> Trial:
        # The servers are killed with the thread that started them, so with this process.
        return _trial(text, filled, server, environment)

    with (
        _compiled(text, filled, environment) as environment,
        ThreadPoolExecutor(TOGETHER) as pool,
    ):
        return list(pool.map(one, range(times)))


@contextmanager
def _compiled(text: str, filled: Filled, environment: Environment) -> Iterator[Environment]:
    """The environment with the compiled script of a language that needs it, else as it is."""
    if filled.language != "go":
        yield environment
        return
    _, variables, _ = environment
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as scratch:
        source = Path(scratch) / file_name(filled)
        source.write_text(text)
        try:
            done = subprocess.run(
                [*DIES_WITH_DRIVER, *GO.compiled([source], Path(scratch))],
                capture_output=True, text=True, check=False, timeout=GO.within_s,
                env=_variables(variables),
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise EnvironmentFailed(f"go could not compile it within {GO.within_s} s") from late
        if done.returncode:
            raise EnvironmentFailed(f"go could not compile the script: {done.stderr[-300:]}")
        yield [str(Path(scratch) / source.stem)], {}, None


def _trial(text: str, filled: Filled, server: str, environment: Environment) -> Trial:
    interpreter, more, modules = environment
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        path = folder / file_name(filled)
        path.write_text(text)
        if modules is not None:
            (folder / MODULES).symlink_to(modules)
        with servers.running(server, folder) as ports:
            script = [] if filled.language == "go" else [str(path)]
            words = [*_around(server), *interpreter, *script, *map(str, ports)]
            try:
                done = subprocess.run(
                    words, capture_output=True, text=True, timeout=TRIAL_S, check=False,
                    stdin=subprocess.DEVNULL, cwd=folder, env=_variables(more),
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return Trial(code=CANNOT_RUN, said=f"could not run: no end within {TRIAL_S} s")
    return Trial(code=done.returncode, said=done.stdout or done.stderr)


def _around(server: str) -> Sequence[str]:
    """Words before a script, so that nothing of it outlives this process."""
    if not servers.SERVERS[server].own:
        return DIES_WITH_DRIVER
    first, *others = CONTAINED
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [*DIES_WITH_DRIVER, first, *mapped, *others]


def _variables(more: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process without those that name modules, and more."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **more}


def shows(
    text: str, filled: Filled, server: str, fetch: Callable[[], Environment], times: int
) -> bool | None:
    """Whether a release shows it in one of the trials; None if it cannot be used."""
    try:
        done = tried(text, filled, server, fetch(), times)
    except EnvironmentFailed:
        return None
    if any(one.shown for one in done):
        return True
    return None if any(one.code for one in done) else False
