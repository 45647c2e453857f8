"""The tutorial of a Redis lock of one's own is carried out: a bug found, a test, the fix, green."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import needs
from tests.front import newcomer


@pytest.mark.real_server
def test_every_step_of_the_tutorial_ends_as_it_says(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    needs.binary("node")
    done = list(newcomer.steps(tmp_path, Path(sys.executable).parent))
    assert len(done) == 5
    for step in done:
        assert step.code == step.expected, f"{step.command}\n{step.said}"
    # Lines break where they are full.
    first, node = (" ".join(done[n].said.split()) for n in (0, 3))
    assert "promise of mutual exclusion and ownership" in first
    assert "release by compare-and-delete" in first
    assert "mutual exclusion" in node
    assert "1 passed" in done[2].said
