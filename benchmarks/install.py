"""What an installation costs: CPU, MiB and packages of `pip install holdfast`, for each extra.

    python benchmarks/install.py [EXTRA ...]

Every wheel is downloaded before, so the numbers are those of installing alone; each row is a
virtual environment of its own. Packages and MiB count what came on top of pip.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.interpreter import build

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """CPU seconds of pip, MiB on disk, packages without pip's own."""

    cpu_s: float
    mib: float
    packages: int


def pip(python: Path | str, *words: str | Path) -> float:
    """Runs pip to its end; the CPU seconds that it and its children took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, words)]
    subprocess.run(argv, check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(folder: Path) -> Path:
    """A new virtual environment; the path of its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def measured(folder: Path, wheels: Path, wanted: str) -> Cost:
    """Installs from the folder of wheels into a new environment."""
    python = environment(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    size, count = weight(packages)
    words = ("install", "--no-index", "--find-links", wheels, *PINNED, wanted)
    cpu_s = pip(python, *words)
    size_after, count_after = weight(packages)
    return Cost(cpu_s=cpu_s, mib=(size_after - size) / MIB, packages=count_after - count)


def weight(packages: Path) -> tuple[int, int]:
    """Bytes of all files below a folder, and the packages in it."""
    size = sum(path.lstat().st_size for path in packages.rglob("*") if path.is_file())
    return size, len(list(packages.glob("*.dist-info")))


PINNED = ("--constraint", ROOT / "constraints.txt")


def main(argv: Sequence[str]) -> None:
    """Prints a row for the base and one for each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for name in project["optional-dependencies"] if name != "dev"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", default=extras, metavar="EXTRA")
    asked = parser.parse_args(argv).extras
    with tempfile.TemporaryDirectory(prefix="holdfast-install-") as name:
        folder = Path(name)
        wheels = folder / "wheels"
        python = environment(folder / "builder")
        built = pip(python, "wheel", "--no-deps", "--wheel-dir", wheels, ".")
        (wheel,) = wheels.glob("holdfast-*.whl")
        pip(python, "download", "--dest", wheels, *PINNED, f"{wheel}[{','.join(asked)}]")
        say(build())
        say(f"building the wheel: {built:.1f} s of CPU, its tools' download among them")
        say("| installed | CPU, s | MiB | packages |\n| --- | --- | --- | --- |")
        for extra in ["", *asked]:
            wanted = f"holdfast[{extra}]" if extra else "holdfast"
            cost = measured(folder / (extra or "base"), wheels, wanted)
            say(f"| `{wanted}` | {cost.cpu_s:.1f} | {cost.mib:.0f} | {cost.packages} |")


def say(line: str) -> None:
    """One line of the table, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
