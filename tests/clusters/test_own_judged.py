"""What the declarations of a user's lock cost: the sentence, and what the checkers judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.catalogue import user_system
from holdfast.checkers.properties import mutual_exclusion
from holdfast.clusters.systems.program.table import problems
from holdfast.clusters.systems.user_class.judged import judged
from holdfast.clusters.systems.user_class.system import CHOICES, declared
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Promises, Verdict
from tests.checkers.shorthand import case, history
from tests.front.said import holdfast

LOCK = (
    "class L:\n    def __init__(self, *a): pass\n    def acquire(self, *a): return 1\n"
    "    def release(self, *a): return True\n"
)
AMID_LEASE = history("0a?@0 0a+@1 1a?@3 1a+@4 0L@20", lease=10)
BEFORE_RENEWAL = history("0a?@0 0a+@1 1a?@3 1a+@4 0n?@5 0n+@6 0L@20", lease=1)
BEFORE_RELEASE = history("0a?@0 0a+@1 1a?@3 1a+@4 0r?@5 0r-@6", lease=1)


def promises(
    bound: str, proves: bool, session_ms: int = 0, lapse_ms: int | None = None
) -> Promises:
    """Those of a lock that declares this."""
    chosen = {name: values[0] for name, values in CHOICES.items()} | {"bound": bound}
    return declared(
        chosen,
        promises=None,
        proves=proves,
        evidence="",
        session_ms=session_ms,
        lapse_ms=lapse_ms,
    )


@pytest.mark.parametrize(
    ("bound", "proves", "shown", "words"),
    [
        ("lease", True, (AMID_LEASE, BEFORE_RENEWAL), "to the end of its lease, and as far as"),
        ("lease", False, (AMID_LEASE,), "within the lease that its acquire was sent with"),
        ("session", True, (BEFORE_RENEWAL,), "only as far as an ok renewal or release proves it"),
        ("session", False, (), "no hold is judged: nothing tells when a session ends"),
        ("connection", True, (BEFORE_RENEWAL,), "nothing tells when a connection ends"),
        ("connection", False, (), "no hold is judged: nothing tells when a connection ends"),
        ("none", True, (AMID_LEASE, BEFORE_RENEWAL, BEFORE_RELEASE), "until its release is sent"),
        ("none", False, (AMID_LEASE, BEFORE_RENEWAL, BEFORE_RELEASE), "until its release is sent"),
    ],
)
def test_the_sentence_says_what_the_checkers_judge(
    bound: str, proves: bool, shown: tuple[object, ...], words: str
) -> None:
    made = promises(bound, proves)
    fields = {name: getattr(made, name) for name in Promises.__dataclass_fields__}
    for told in (AMID_LEASE, BEFORE_RENEWAL, BEFORE_RELEASE):
        verdict = mutual_exclusion.check(case(told, promises=fields)).verdict
        assert (verdict is Verdict.VIOLATED) is any(told is one for one in shown)
    assert words in judged(made)


def test_a_session_of_its_own_length_is_part_of_what_is_promised(tmp_path: Path) -> None:
    assert promises("session", True).lasting_ns(SECOND) == SECOND
    assert promises("session", True, 30_000).lasting_ns(SECOND) == 30 * SECOND
    assert promises("session", True, 2_000).lasting_ns(5 * SECOND) == 5 * SECOND
    assert "may last 30 s, or the lease if it is longer" in judged(
        promises("session", True, 30_000)
    )
    file = tmp_path / "own.py"
    file.write_text(f"{LOCK}    bound, session_ms = 'session', 30_000\n")
    made = load(user_system.row(f"{file}:L").entry)
    assert made.promises({}).session_ns == 30 * SECOND
    table = tmp_path / "own.toml"
    table.write_text('[system]\nclient = "cat"\nbound = "session"\nsession_ms = 30_000\n')
    assert load(user_system.row(str(table)).entry).promises({}).session_ns == 30 * SECOND


def test_a_lock_that_renews_by_itself_says_when_its_service_ends_a_hold(tmp_path: Path) -> None:
    assert not promises("none", False).lapses
    lapsing = promises("none", False, lapse_ms=30_000)
    assert lapsing.lapses and lapsing.lapse_ns == 30 * SECOND
    assert lapsing.lasting_ns(SECOND) == lapsing.notice_within_ns(SECOND) == 30 * SECOND
    assert lapsing.notice_within_ns(60 * SECOND) == 60 * SECOND
    assert "lost once another is granted it after nobody renewed it for 30 s" in judged(lapsing)
    file = tmp_path / "own.py"
    file.write_text(f"{LOCK}    bound, lapse_ms = 'none', 2_000\n")
    assert load(user_system.row(f"{file}:L").entry).promises({}).lapse_ns == 2 * SECOND
    table = tmp_path / "own.toml"
    table.write_text('[system]\nclient = "cat"\nbound = "none"\nlapse_ms = 2_000\n')
    assert load(user_system.row(str(table)).entry).promises({}).lapse_ns == 2 * SECOND


LAPSING = "only a lock that renews by itself"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("lapse_ms = 2_000", f"lapse_ms: {LAPSING}"),
        ("bound, lapse_ms = 'none', 0", "lapse_ms: expected milliseconds, 1 to 3600000"),
        ("bound, lapse_ms = 'none', True", "lapse_ms: expected milliseconds"),
        ("bound, lapses_ms = 'none', 2_000", "did you mean 'lapse_ms'?"),
        ("session_ms = 30_000", "only holds that a session ends have it: bound = 'session'"),
        ("bound, session_ms = 'session', 0", "expected milliseconds, 1 to 3600000"),
        ("bound, session_ms = 'session', 2.5", "expected milliseconds"),
        ("bound, sesion_ms = 'session', 30_000", "did you mean 'session_ms'?"),
    ],
)
def test_a_wrong_session_of_a_class_is_refused(tmp_path: Path, line: str, wrong: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(f"{LOCK}    {line}\n")
    with pytest.raises(UsageError) as caught:
        user_system.row(f"{file}:L")
    assert wrong in str(caught.value)


def test_a_wrong_session_of_a_table_is_refused() -> None:
    table = {"client": "cat", "bound": "session"}
    assert problems({**table, "session_ms": 30_000}) == []
    assert problems({"client": "cat", "session_ms": 30_000}) == [
        "session_ms: only holds that a session ends have it: bound = 'session'"
    ]
    assert problems({"client": "cat", "bound": "none", "lapse_ms": 2_000}) == []
    (wrong,) = problems({"client": "cat", "lapse_ms": 2_000})
    assert wrong.startswith(f"lapse_ms: {LAPSING}")
    assert problems({**table, "session_ms": "30 s"}) == [
        "session_ms: expected milliseconds, 1 to 3600000"
    ]
    assert problems({**table, "sesion_ms": 1}) == [
        "unknown key: sesion_ms; did you mean 'session_ms'?"
    ]


def test_doctor_says_it_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    start = "    def __init__(self, servers, options): ...\n"
    Path("own.py").write_text(f"{LOCK}{start}    bound, proves = 'session', False\n")
    told = holdfast(capsys, "doctor", "--system", "own.py:L", "--json")
    assert str(json.loads(told.out)["judged"]).startswith("no hold is judged")
    assert " judged: no hold is judged: " in holdfast(capsys, "doctor", "--system", "own.py:L").out
