"""A lock author's repository, gated as the example workflows do it, on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.front.author import Repository, file_of, github_commands, gitlab_commands

EARLY = ("if now < ends and not mine:", "if now < ends - 0.4 and not mine:")
"""The planted bug: a lease of half a second is over after a tenth."""
ALONE = ("runs=2", "runs=2, clients=1")


@pytest.mark.power
def test_green_at_first_red_with_the_story_inconclusive_alone_and_2_without_a_baseline(
    tmp_path: Path,
) -> None:
    needs.namespaces()
    author = Repository(tmp_path)
    author.write("mylock.py", file_of("own-lock.md", "mylock.py"))
    author.write("test_mylock.py", file_of("pytest.md", "test_mylock.py"))
    author.write("harness/__init__.py", '"""The author\'s own folder of that name."""\n')
    _, tests, gate = github_commands()
    assert author.run(tests).code == 2, "without a baseline"
    ran = author.run("pytest")
    assert ran.code == 0, ran.said
    assert author.run(gate).code == 2, "without a baseline"
    assert author.run("holdfast gate .holdfast/pytest --update-baseline").code == 0
    for command in (tests, gate):
        ran = author.run(command)
        assert ran.code == 0, ran.said
    assert "gate passed: 0 of 2 runs broke a promise" in ran.said
    assert "gate passed" in (author.folder / "summary.md").read_text()

    author.edit("mylock.py", *EARLY)
    _, tests, gate = gitlab_commands()
    ran = author.run(tests)
    assert ran.code == 1, ran.said
    assert "mylock.py:MyLock broke its promise of" in ran.said
    assert "mutual exclusion" in ran.said
    assert "again: holdfast run --system mylock.py:MyLock" in ran.said
    again = next(line for line in ran.said.splitlines() if line.strip("E ").startswith("again: "))
    assert author.run(again.partition("again: ")[2]).code == 1
    ran = author.run(gate)
    assert ran.code == 1 and "violation: mylock.py:MyLock / local" in ran.said

    author.edit("mylock.py", *reversed(EARLY))
    author.edit("test_mylock.py", *ALONE)
    ran = author.run(tests)
    assert ran.code == 1 and "gate INCONCLUSIVE" in ran.said, ran.said
    ran = author.run(gate)
    assert ran.code == 3, ran.said
    assert "lost-exercise" in ran.said
