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


@pytest.mark.parametrize("count", [2, 3])
def test_what_waits_goes_to_the_third_process_and_all_is_given(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr(kept_times, "KEPT", tmp_path / "kept_times.txt")
    kept_times.KEPT.write_text("9 1 0 a.py\n8 8 0 b.py\n7 2 0 c.py\n6 6 0 d.py\n5 5 0 e.py\n")
    tests = [f"{name}.py::test_{n}" for name in "abcde" for n in (1, 2)]
    monkeypatch.setattr(pytestconfig.option, "tx", [f"{count}*popen"])
    shares = shared_out.Shares(pytestconfig)
    processes = [Process(f"gw{n}") for n in range(count)]
    for process in processes:
        shares.add_node(process)
    for process in processes:
        shares.add_node_collection(process, tests)
    shares.schedule()
    given = ["".join(dict.fromkeys(tests[n][0] for n in one.given)) for one in processes]
    assert given == (["be", "da"] if count == 2 else ["be", "dc", "a"])
    # Whoever is done takes what is left, of whatever kind.
    for _ in tests:
        for process in processes:
            for n in process.given:
                shares.mark_test_complete(process, n)
    assert sorted(n for one in processes for n in one.given) == list(range(len(tests)))
    assert shares.tests_finished
