"""A newcomer's first five minutes, timed: `python -m tests.front.newcomer`.

Builds a wheel, installs it with pytest into a fresh environment in an empty folder, and does what
docs/tutorial/redis-lock.md says, with the time of each step and whether it is ours or pip's.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial" / "redis-lock.md"
FIXED = {"python": "# mylock.py, fixed\n", "javascript": "// client.js, fixed\n"}
RELEASE = {
    "python": re.compile(r"^    def release\(.*?(?=^\S|\Z)", re.M | re.S),
    "javascript": re.compile(r"^async function release.*?^}\n", re.M | re.S),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One command: how it ended, how it should, how long it took."""

    command: str
    code: int
    expected: int
    seconds: float
    said: str


def environment(folder: Path) -> Path:
    """A fresh environment with a wheel of these sources and pytest; its bin folder."""
    wheels = folder / "wheels"
    pip = [sys.executable, "-P", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(wheels), str(ROOT)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (wheel,) = wheels.glob("holdfast-*.whl")
    bin_folder = folder / "venv" / "bin"
    install = [str(bin_folder / "python"), "-m", "pip", "--quiet", "install", *constraints]
    subprocess.run([*install, str(wheel), "pytest"], check=True)
    return bin_folder


def steps(folder: Path, bin_folder: Path) -> Iterator[Step]:
    """Carries the page out in a folder: writes its files, runs its commands."""
    for kind, text in re.findall(
        r"```(python|javascript|toml|console)\n(.*?)```", PAGE.read_text(), re.S
    ):
        if kind == "console":
            yield from _commands(text, folder, bin_folder)
        elif text.startswith(FIXED.get(kind, "#!")):
            _fix(folder, kind, text.removeprefix(FIXED[kind]))
        else:
            name, _, body = text.partition("\n")
            (folder / name.removeprefix("# ").removeprefix("// ")).write_text(body)


def _fix(folder: Path, kind: str, text: str) -> None:
    """Put the page's constant and release in place of the release of the file."""
    path = folder / {"python": "mylock.py", "javascript": "client.js"}[kind]
    found = RELEASE[kind].search(text)
    assert found is not None
    constant = text[: found.start()].strip() + "\n\n"
    before = path.read_text()
    after, n = RELEASE[kind].subn(lambda _: found[0], before)
    assert n == 1
    path.write_text(
        constant + after
        if kind == "python"
        else after.replace("const PORT", constant + "const PORT", 1)
    )


def _commands(text: str, folder: Path, bin_folder: Path) -> Iterator[Step]:
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        command, _, comment = line.removeprefix("$ ").partition("   # ")
        wanted = re.search(r"exit code (\d+)", comment)
        begun = time.monotonic()
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env={"PATH": f"{bin_folder}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=280,
        )
        yield Step(
            command=command,
            code=done.returncode,
            expected=int(wanted[1]) if wanted else 0,
            seconds=time.monotonic() - begun,
            said=done.stdout + done.stderr,
        )


def main() -> int:
    """Prints the time of each step; exit code 1 if one did not end as the page says."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        folder.mkdir()
        begun = time.monotonic()
        bin_folder = environment(Path(scratch))
        sys.stdout.write(f"{time.monotonic() - begun:6.1f} s  wheel, venv, pip install\n")
        wrong = 0
        for step in steps(folder, bin_folder):
            sys.stdout.write(f"{step.seconds:6.1f} s  exit {step.code}  {step.command[:70]}\n")
            wrong += step.code != step.expected
        sys.stdout.write(f"{time.monotonic() - begun:6.1f} s  in all\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
