"""Which files of tests `make test-tools` runs, and that nothing is skipped beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import conftest
from tests.quick import ROOT
from tests.tools import asking


@pytest.mark.parametrize(
    "name",
    [
        "tests/nemesis/test_agent_disks.py",
        "tests/reports/test_browser.py",  # through the module that starts the browser
        "tests/nemesis/test_agent_leaving.py",  # through another file of tests
    ],
)
def test_a_file_whose_imports_lead_to_the_needs_asks_for_tools(name: str) -> None:
    assert name in asking()


def test_most_files_ask_for_nothing() -> None:
    every = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert asking() < every and len(asking()) < len(every) / 2
    assert "tests/checkers/test_ownership.py" not in asking()


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (ROOT / "tests/checkers/test_ownership.py", True),
        (ROOT / "tests/nemesis/test_agent_disks.py", False),
        (Path("/elsewhere/test_of_a_plugin.py"), False),
    ],
)
def test_a_skip_where_nobody_would_look_for_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, request: Any, path: Path, refused: bool
) -> None:
    monkeypatch.delenv("HOLDFAST_REQUIRE", raising=False)
    monkeypatch.setattr(request.node, "path", path)
    assert bool(conftest.refusal(request.node)) is refused
