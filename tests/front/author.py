"""A lock author's repository as a test sees it: files, and the commands of a CI carried out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIMS = {"holdfast": "-m holdfast", "pytest": "-m pytest -p holdfast.pytest.plugin"}
WITHIN_S = 600


def github_commands() -> list[str]:
    """What the steps of the example workflow run, in order."""
    text = (ROOT / "examples" / "github-workflow.yml").read_text()
    return re.findall(r"^\s+run: (.+)$", text, re.M)


def gitlab_commands() -> list[str]:
    """What the example job runs, in order."""
    text = (ROOT / "examples" / "gitlab-ci.yml").read_text()
    scripts = re.findall(r"^  (?:before_)?script:\n((?:    - .+\n)+)", text, re.M)
    return re.findall(r"- (.+)", "".join(scripts))


def file_of(page: str, name: str) -> str:
    """A file as a how-to page shows it."""
    text = (ROOT / "docs" / "howto" / page).read_text()
    blocks: list[str] = re.findall(r"```\w+\n(.*?)```", text, re.S)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How a command ended and all that it said."""

    code: int
    said: str


class Repository:
    """A folder in which `holdfast` and `pytest` are the ones under test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self._bin = folder / "bin"
        self._bin.mkdir()
        self.folder.mkdir()
        for name, words in SHIMS.items():
            self.shim(name, f'exec {sys.executable} {words} "$@"')

    def shim(self, name: str, script: str) -> None:
        """A command of this name."""
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def environ(self) -> dict[str, str]:
        """The environment of a CI's job."""
        # Autoload would find an installed Holdfast a second time, beside the one under test.
        environment = {
            **os.environ,
            "CI": "true",
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
        }
        environment.pop("PYTEST_ADDOPTS", None)
        return environment

    def write(self, name: str, text: str) -> None:
        """A file of the author's."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, before: str, after: str) -> None:
        """Change one place of a file."""
        text = (self.folder / name).read_text()
        assert text.count(before) == 1, before
        self.write(name, text.replace(before, after))

    def run(self, command: str) -> Ran:
        """Carry a command line out as a CI would: by a shell, in the repository."""
        done = subprocess.run(
            ["sh", "-e", "-c", command],
            cwd=self.folder,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        return Ran(code=done.returncode, said=done.stdout + done.stderr)
