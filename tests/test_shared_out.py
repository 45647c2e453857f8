"""How processes share the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import kept_times, shared_out


class Gateway:
    def __init__(self, name: str) -> None:
        self.id = name


class Process:
    """A process of tests that notes which of them it is given."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = Gateway(name)
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize(
    ("draws", "given"),
    [
        ("few", ["be", "da"]),
        ("few", ["be", "dc", "a"]),
        ("some", ["bd", "ae", "c"]),
    ],
)
def test_what_waits_goes_to_later_processes_and_all_is_given(
    draws: str,
    given: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.setattr(kept_times, "KEPT", tmp_path / "kept_times.txt")
    kept_times.KEPT.write_text(
        "9 1 9 1 a.py\n8 8 8 8 b.py\n7 2 7 2 c.py\n6 6 6 6 d.py\n5 5 5 5 e.py\n"
    )
    monkeypatch.setenv("HOLDFAST_DRAWS", draws)
    count = len(given)
    tests = [f"{name}.py::test_{n}" for name in "abcde" for n in (1, 2)]
    monkeypatch.setattr(pytestconfig.option, "tx", [f"{count}*popen"])
    shares = shared_out.Shares(pytestconfig)
    processes = [Process(f"gw{n}") for n in range(count)]
    for process in processes:
        shares.add_node(process)
    for process in processes:
        shares.add_node_collection(process, tests)
    shares.schedule()
    assert given == ["".join(dict.fromkeys(tests[n][0] for n in one.given)) for one in processes]
    # Whoever is done takes what is left, of whatever kind.
    for _ in tests:
        for process in processes:
            for n in process.given:
                shares.mark_test_complete(process, n)
    assert sorted(n for one in processes for n in one.given) == list(range(len(tests)))
    assert shares.tests_finished
