"""Installs the client libraries under test, unmodified and pinned, each set in its own folder.

Only pure Python packages so far: such a folder serves every interpreter, so the same one is used by
local processes and in containers by PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.clusters.libraries.projects import NO_MORE, Requirements
from holdfast.harness.core.errors import EnvironmentFailed, UsageError, first_error

ATTEMPTS = 3
SILENT_S = 300
"""pip itself times out on a silent index much sooner; a package that is built may take long."""
LAST_WORDS = 65536
SHOWN = 8
OLDEST = (3, 11)
"""The oldest interpreter that Holdfast and its nodes run on."""
PROGRESS = ("Collecting ", "Downloading ", "Building wheel")
OLDER = re.compile(
    r"""^Requires-Dist:\s*([^;\n]+?)\s*;\s*python(_full)?_version\s*(<=?)\s*["']([\d.]+)["']\s*$""",
    re.M,
)
BUILD_FAILED = re.compile(
    r"Failed to build (?:installable wheels for some pyproject\.toml based projects \()?([\w.-]+)"
    r"|(?:metadata-generation-failed|subprocess-exited-with-error)"
)
OF_PIP = (
    "ERROR: ",
    "error: subprocess-exited",
    "error: metadata-generation",
    "error: failed-wheel",
)
"""Beginnings of errors that say only that another program of pip's failed."""
NO_VERSION = re.compile(r"satisfies the requirement (\S+) \(from versions: ([^)]*)\)")


def cache() -> Path:
    """Folder of fetched libraries, kept between runs, per user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "holdfast" / "libraries"


def folder(
    pins: Sequence[str], *, dependencies: bool = False, more: Requirements = NO_MORE
) -> Path:
    """Folder of exactly these pins and requirement files, whether it exists or not."""
    # What pip resolves depends on the interpreter that it runs in.
    resolved = [f"dependencies, Python {platform.python_version()}"] if dependencies else []
    exact = "\n".join([*sorted(pins), *more.content(), *resolved])
    return cache() / hashlib.sha256(exact.encode()).hexdigest()[:16]


def problem(pins: Sequence[str], *, dependencies: bool = False) -> str | None:
    """Why the folder of these pins cannot be used, and what to do; None if it can."""
    target = folder(pins, dependencies=dependencies)
    if not target.is_dir():
        return "not fetched yet; the first run fetches it with pip"
    there = {_alike(path.name.removesuffix(".dist-info")) for path in target.glob("*.dist-info")}
    lost = [pin for pin in pins if _alike(pin.replace("==", "-")) not in there]
    if not lost:
        return None
    return f"broken: {', '.join(lost)} missing in {target}; remove that folder, a run fetches it"


def _alike(name: str) -> str:
    """A normalized name and version, as pip may write them differently."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(
    pins: Sequence[str],
    built: Sequence[str] = (),
    tell: Callable[[str], None] = lambda line: None,
    *,
    dependencies: bool = False,
    more: Requirements = NO_MORE,
) -> Path:
    """The folder that holds exactly these pins; fetched with pip on first use.

    built  packages among them that are published as source only, which pip has to build
    dependencies   also fetch what they depend on; else the pins are complete. What is published as
           source only is built by this interpreter, which is that of clients on this machine
    more   requirement files of a project, and versions of what it depends on
    tell   receives lines of progress

    The folder appears atomically. UsageError if there is no such version, else EnvironmentFailed
    with pip's last output if ATTEMPTS attempts failed.
    """
    target = folder(pins, dependencies=dependencies, more=more)
    if target.is_dir():
        return target
    argv = [sys.executable, "-P", "-m", "pip", "install", "--progress-bar=off",
            "--disable-pip-version-check", *([] if dependencies else ["--no-deps"])]  # fmt: skip
    binary = ["--only-binary=:all:", *(f"--no-binary={package}" for package in built)]
    output, attempt, sources = "", 0, False
    words = ", ".join([*pins, *more.words])
    while attempt < ATTEMPTS:
        attempt += 1
        again = f" (attempt {attempt} of {ATTEMPTS})" if attempt > 1 else ""
        tell(f"fetching {words} with pip{again}")
        with scratch(target) as part, asked(pins, more) as requirements:
            fetched, output = installed(
                [*argv, *binary, "--target", str(part), *requirements], _progress, tell
            )
            if fetched:
                if dependencies:
                    _add_for_older_pythons(part, [*argv, *binary], tell)
                return moved(part, target)
        unknown = NO_VERSION.search(output)
        if unknown is not None and dependencies and not sources:
            tell(f"no built {unknown[1]} for this interpreter: building it from its source")
            # Else pip may install it as an egg, whose folder does not name its version.
            binary, attempt = ["--prefer-binary", "--use-pep517"], attempt - 1
            sources = True
        elif unknown is not None and unknown[2] != "none":
            # The index responded: another attempt would get the same response.
            form = "" if dependencies else " in pure Python or for this machine"
            raise UsageError(
                f"libraries: pip finds no {unknown[1]}{form}; found"
                f" {', '.join(unknown[2].split(', ')[-SHOWN:])}"
            )
        elif (failed := BUILD_FAILED.search(output)) is not None:
            raise EnvironmentFailed(
                f"libraries: {words}: pip could not build {failed[1] or 'a package'} from"
                f" its source: {_reason(output)}"
            )
    raise EnvironmentFailed(
        f"libraries: pip could not fetch {words} in {ATTEMPTS} attempts: {_reason(output)}"
    )


@contextmanager
def asked(pins: Sequence[str], more: Requirements) -> Iterator[list[str]]:
    """The words that ask pip for them."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(more.constraints))
        constraints.flush()
        bounds = ["--constraint", constraints.name] if more.constraints else []
        files = [word for path in more.files for word in ("--requirement", str(path))]
        yield [*bounds, *files, *more.pins, *pins]


def _reason(said: str) -> str:
    """Why pip failed: the error of a build, else its own, else its last line."""
    lines = [line for line in said.splitlines() if line.strip()]
    own = [line for line in lines if line.strip().startswith(OF_PIP)]
    inner = first_error(line for line in lines if not line.strip().startswith(OF_PIP))
    return inner or first_error(own) or (lines[-1].strip() if lines else "no output")


def _add_for_older_pythons(part: Path, argv: Sequence[str], tell: Callable[[str], None]) -> None:
    """Also fetches what only interpreters before this one need: those of the nodes may be older.

    One that cannot be fetched is left out: pip looks for a package for this interpreter, for which
    there may be none.
    """
    for one in _for_older_pythons(part):
        fetched, output = installed([*argv, "--target", str(part), one], _progress, tell)
        if not fetched:
            tell(f"without {one}, which only older interpreters need: {_reason(output)}")


def _for_older_pythons(fetched: Path) -> list[str]:
    """Dependencies of fetched packages that only older interpreters than this one need, of those
    that Holdfast runs on.

    Of `Requires-Dist: async-timeout>=4; python_full_version < "3.11.3"` this is the first half.
    """
    metadata = [path.read_text(errors="replace") for path in fetched.glob("*.dist-info/METADATA")]
    needed = [
        match[1]
        for text in metadata
        for match in OLDER.finditer(text)
        if _covers(match[4], inclusive=match[3] == "<=", full=bool(match[2]))
    ]
    there = {_alike(path.name.partition("-")[0]) for path in fetched.glob("*.dist-info")}
    missing = [one for one in needed if _alike(re.split(r"[^\w.-]", one)[0]) not in there]
    return list(dict.fromkeys(missing))


def _covers(version: str, *, inclusive: bool, full: bool) -> bool:
    """Whether a marker `< version` is true for the oldest interpreter that Holdfast runs on."""
    bound = tuple(int(part) for part in version.split(".") if part)
    oldest = (*OLDEST, 0) if full else OLDEST
    return oldest < bound or (inclusive and oldest == bound)


@contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """A temporary folder beside the target; removed afterwards if it was not moved."""
    cache().mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=cache()))
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def moved(part: Path, target: Path) -> Path:
    """The target, which a complete scratch folder becomes atomically."""
    part.chmod(0o755)
    with suppress(OSError):  # another process was faster
        part.rename(target)
    return target


def _progress(line: str) -> str:
    # After the file's name and size follows its address.
    return line if line.startswith(PROGRESS) else ""


def installed(
    argv: Sequence[str], progress: Callable[[str], str], tell: Callable[[str], None]
) -> tuple[bool, str]:
    """Whether an installer succeeded, and its last output; terminated SILENT_S after the last.

    progress  what to tell of a line of its output, "" for nothing
    """
    try:
        # In a session of its own: under nohup, the end of our terminal must not end it.
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        return False, str(error)
    assert process.stdout is not None
    output, line, out = b"", b"", process.stdout.fileno()
    try:
        while True:
            if not select.select([out], [], [], SILENT_S)[0]:
                return False, f"no output for {SILENT_S} s; terminated"
            part = os.read(out, 65536)
            if not part:
                return process.wait() == 0, output.decode(errors="replace")
            output = (output + part)[-LAST_WORDS:]
            *lines, line = (line + part).split(b"\n")
            for whole in lines:
                text = progress(whole.decode(errors="replace").strip())
                if text:
                    tell(text)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def unusable(folder: Path, module: str) -> str:
    """Why a module that imports the libraries of a folder cannot be imported; "" if it can.

    In a separate process, as clients import it: this one must not load what is under test.
    """
    code = "import importlib, sys; importlib.import_module(sys.argv[1])"
    path = os.pathsep.join([str(Path(__file__).parents[3]), str(folder)])
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code, module],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    lines = done.stderr.strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""
