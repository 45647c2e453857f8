"""`holdfast hunt`: what it runs, what it lists once, which releases it tries, and bad input."""

from __future__ import annotations

import itertools
import json
import random
import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.campaigns import runner
from holdfast.catalogue.findings import FINDINGS
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import Severity
from holdfast.harness.plans.plan import Plan, parse_nemesis
from holdfast.hunting import findings, releases, subject, table, trying
from holdfast.hunting.agenda import Agenda, runnable
from holdfast.hunting.findings import Occurrence
from holdfast.hunting.hunt import Hunt, Hunted
from holdfast.hunting.releases import Bad, Span
from holdfast.hunting.situations import CHOICE, NEEDS, SITUATIONS, chosen
from holdfast.hunting.subject import Subject
from holdfast.hunting.trying import HuntRun
from holdfast.planning import prepare
from tests import needs
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


def none(package: str) -> Sequence[str]:
    """No releases: the package manager cannot be asked."""
    return ()


def of(text: str, *listed: str, system: str | None = None, count: int = 10) -> Subject:
    return subject.read(text, system, count, lambda package: listed)


def first(hunted: Subject, count: int, seed: int = 1) -> list[tuple[str, str, Plan]]:
    runs = itertools.islice(Agenda(hunted, seed).runs(), count)
    return [(one.situation, one.release, one.plan) for one in runs]


def test_the_runs_are_those_of_the_seed() -> None:
    redis = of("redis", "8.1.0", "8.0.0")
    assert first(redis, 90) == first(redis, 90)
    assert first(redis, 90) != first(redis, 90, seed=2)


def test_every_situation_comes_once_before_any_comes_twice() -> None:
    redis = of("redis", "8.1.0", "8.0.0", "7.0.0")
    runs = first(redis, 5 + 2 * len(SITUATIONS))
    begin = [name for name, _, _ in runs[:5]]
    assert begin == ["no-fault"] * 5  # one per way of use with one option
    (within,) = [plan.options for _, _, plan in runs[:5] if plan.options.get("way") == "with"]
    assert within["wait_ms"] == "12000"
    turn = [name for name, _, _ in runs[5 : 4 + len(SITUATIONS)]]
    assert sorted(turn) == sorted([*SITUATIONS][1:])
    assert {release for _, release, _ in runs[: 4 + len(SITUATIONS)]} == {"8.1.0"}
    assert {"8.0.0", "7.0.0"} <= {release for _, release, _ in runs}


OWN = """
class Mine:
    bound = "session"

    def __init__(self, servers, options):
        self.held = {}

    def acquire(self, lock, owner, lease_s):
        return self.held.setdefault(lock, owner) == owner

    def release(self, lock, owner):
        return self.held.pop(lock, None) == owner
"""


def test_a_lock_of_the_user_is_hunted_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    Path("lock.toml").write_text('[system]\nclient = "{python} -c pass"\n')
    mine = of("mine.py:Mine")
    assert mine.own and mine.python and mine.variants[0].bound == "session"
    plans = [plan for _, _, plan in first(mine, 80)]
    assert {plan.system for plan in plans} == {"mine.py:Mine"}
    assert not any("library" in plan.options for plan in plans)
    assert of("mine.py:Mine", system="redis").variants[0].system == "mine.py:Mine@redis"
    table_lock = of("lock.toml")
    assert table_lock.own and not table_lock.python
    assert "forked-holder" not in {name for name, _, _ in first(table_lock, 80)}


@pytest.mark.slow
def test_a_hunt_finds_that_a_lock_of_the_user_excludes_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    ran = holdfast(capsys, "hunt", "mine.py:Mine", "--budget", "60s", "--runs", "1", "--seed", "1")
    assert ran.code == 1
    assert "mutual-exclusion" in ran.out and "releases" not in ran.err.splitlines()[0]


def test_a_situation_comes_only_where_it_makes_sense() -> None:
    blocking = {name for name, _, _ in first(of("redlock-py"), 80)}
    assert "forked-holder" in blocking and "cancelled-acquires" not in blocking
    of_node = {name for name, _, _ in first(of("npm:redlock"), 80)}
    assert not {"forked-holder", "cancelled-acquires"} & of_node
    # A candidate of an election cannot withdraw, so a try of it would be granted later.
    assert {plan.workload for _, _, plan in first(of("kubernetes"), 80)}.isdisjoint({"try-lock"})
    for _, _, plan in first(of("redis"), 80):
        kinds = [name for name, _ in plan.nemeses]
        if any(catalogue.NEMESES[kind].traits.in_client for kind in kinds) and "cancel" in kinds:
            assert plan.options["api"] == "asyncio"


def test_what_shows_most_about_a_lock_comes_first() -> None:
    assert first(of("tooz"), 2)[1][0] == "ended-session"
    assert first(of("kazoo"), 2)[1][0] == "lost-session"
    assert first(of("kubernetes"), 2)[1][0] == "silent-holder"


def test_a_lock_with_fencing_tokens_is_used_with_them_first() -> None:
    go = of("deb:golang-etcd-server-dev")
    looks = [plan.options.get("tokens") for _, _, plan in first(go, 3)]
    assert looks == [None, "revision", "header"]
    later = [plan.options.get("tokens") for _, _, plan in first(go, 12)[3:]]
    assert later == ["header"] * 9  # the package's own response, without a second read


@pytest.mark.parametrize("package", subject.known())
def test_every_way_of_using_a_package_is_one_that_it_has(package: str) -> None:
    found = subject.read(package, None, 1, lambda name: [])
    for variant in found.variants:
        options = {**variant.options, "library": package}
        prepare.complete(Plan(system=variant.system, backend="local", nodes=0, options=options))


def test_a_way_of_use_with_two_holders_without_faults_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(plan: Plan, number: int) -> HuntRun:
        zero = plan.options.get("expire") == "zero"
        late = seen_in(f"run-{number}", prop="orphan-freedom")
        shown = (seen_in(f"run-{number}"),) if zero else (late,)
        return HuntRun(plan=plan, run=f"run-{number}", seen=shown, tested=True, grants=9)

    hunted = hunted_with(monkeypatch, run, limit=60)
    used = [trial.variant.options.get("expire") for trial, _ in hunted.trials]
    assert used[2] == "zero" and used.count("zero") <= 2  # with asyncio it is another way of use
    assert used.count("none") > 10
    # The only way of use is kept, whatever it shows.
    agenda = Agenda(of("redlock-py"), 1)
    agenda.settled(agenda.left()[0])
    assert len(agenda.left()) == 1


def test_a_way_of_use_that_grants_nothing_is_dropped() -> None:
    agenda = Agenda(of("python-redis-lock"), 1)
    assert len(agenda.left()) == 4
    for variant in agenda.left()[1:]:
        agenda.drop(variant)
    later = itertools.islice(agenda.runs(), 10, 60)
    assert {one.variant.words for one in later} == {""}
    agenda.drop(agenda.left()[0])
    assert len(list(agenda.runs())) <= 4  # only the first looks are left: the agenda ends


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("package", ["redis", "kazoo", "npm:etcd3"])
def test_every_situation_becomes_a_plan_that_is_complete(name: str, package: str) -> None:
    needs.namespaces()
    hunted = of(package)
    rng = random.Random(name)
    variant = hunted.variants[0]
    options = {"library": hunted.library(hunted.release), **variant.given()}
    plan = SITUATIONS[name].plan(rng, variant.system, options)
    full = prepare.prepared(plan)
    assert full.plan.faults or not plan.nemeses
    assert {*SITUATIONS[name].needs} <= {*NEEDS}
    assert catalogue.NEMESES.keys() >= {kind for kind, _ in plan.nemeses}


def test_situations_that_a_machine_cannot_run_are_left_out_with_the_reason() -> None:
    def without_networks(plan: Plan) -> None:
        for kind, _ in plan.nemeses:
            if catalogue.NEMESES[kind].traits.on_connections:
                raise UsageError(f"nemesis {kind} needs one network per client")

    kept, refused = runnable(of("redis"), complete=without_networks)
    assert "no-fault" in kept and "paused-holder" not in refused
    assert refused["lost-replies"] == "nemesis reply-loss needs one network per client"
    assert {*kept}.isdisjoint(refused)
    agenda = Agenda(of("redis"), 1, kept)
    names = {one.situation for one in itertools.islice(agenda.runs(), 60)}
    assert names == {*kept} and len(agenda.left()) > 1

    def nothing(plan: Plan) -> None:
        raise UsageError("etcd is not installed")

    with pytest.raises(UsageError, match="etcd is not installed"):
        runnable(of("redis"), complete=nothing)


def test_no_situation_is_the_command_of_a_finding() -> None:
    """Generic means: no fault or duration was copied from a command of a known finding."""
    known = [
        fault
        for one in FINDINGS.values()
        for word, text in pairwise(shlex.split(one.command))
        if word == "--nemesis"
        for fault in parse_nemesis(text)
        if len(fault[1]) > 1
    ]
    assert len(known) > 20
    for situation in SITUATIONS.values():
        for n in range(40):
            made = chosen(random.Random(n), situation.nemesis)
            assert not made or not [fault for fault in parse_nemesis(made) if fault in known]


def test_choices_are_sampled_and_nothing_else_is_touched() -> None:
    seen = Counter(chosen(random.Random(n), "a {1|2} b {3}") for n in range(40))
    assert seen.keys() == {"a 1 b 3", "a 2 b 3"}
    assert not CHOICE.search(chosen(random.Random(0), "{a|b}{c|d}"))


def test_only_ways_that_the_adapter_has_are_used() -> None:
    assert [one.words for one in of("redlock-py").variants] == [""]
    words = [one.words for one in of("redis").variants]
    assert len(words) == 12 and words[0] == "" and "api=asyncio expire=zero" in words
    assert {one.system for one in of("npm:redis-semaphore").variants} == {"redis", "redlock"}
    assert {one.system for one in of("npm:redis-semaphore", system="redis").variants} == {"redis"}
    # An adapter that replaces a missing lease by its own must not be judged as if there was none.
    folder = Path(
        str(__import__("holdfast.clusters.libraries.adapters", fromlist=["x"]).__path__[0])
    )
    for name, row in LIBRARIES.items():
        for adapter in row.adapters.values():
            text = (folder / f"{adapter}.py").read_text()
            assert len(row.leases) == 1 or "lease_s or" not in text, name
            assert len(row.renewals) == 1 or 'options.get("renew")' in text, name


def test_releases_are_read_from_what_the_package_managers_print() -> None:
    said = "redis (3.0)\nAvailable versions: 3.0, 2.0.post1, 2.0\n  INSTALLED: 2.0\n"
    assert releases.of_pip(said) == ["3.0", "2.0.post1", "2.0"]
    assert releases.of_pip("ERROR: No matching distribution found for redis") == []
    assert releases.of_pip("Available versions: 1.0, ../../x, $(reboot)") == ["1.0"]
    assert releases.of_npm('["1.0.0", "2.0.0"]') == ["2.0.0", "1.0.0"]
    assert releases.of_npm('"1.0.0"') == ["1.0.0"]
    assert releases.of_npm("npm ERR!") == releases.of_npm('{"error": 1}') == []


def test_the_newest_releases_are_hunted_and_those_around_one_that_is_asked_for() -> None:
    listed = ["9.0rc1", "4.0", "3.0", "2.0", "1.0"]
    assert releases.last(listed, "3.0", "", 3) == ["4.0", "3.0", "2.0"]
    assert releases.last(listed, "9.0rc1", "", 3) == ["9.0rc1", "4.0", "3.0"]
    assert releases.last(listed, "3.0", "2.0", 3) == ["3.0", "2.0", "1.0"]
    assert releases.last(listed, "3.0", "1.0", 2) == ["2.0", "1.0"]
    assert releases.last([], "3.0", "", 3) == ["3.0"]


def bisected(listed: Sequence[str], seen: str, bad: Callable[[str], Bad]) -> tuple[Span, list[str]]:
    """The span, and the releases that were tried."""
    search, tried = releases.bisect(listed, seen), list[str]()
    try:
        name = next(search)
        while True:
            tried.append(name)
            name = search.send(bad(name))
    except StopIteration as end:
        found: Span = end.value
        return found, tried


LISTED = [str(n) for n in range(20, 0, -1)]


@pytest.mark.parametrize("seen", range(1, 21))
def test_bisection_finds_both_ends_of_every_span(seen: int) -> None:
    for low, high in itertools.product(range(1, seen + 1), range(seen, 21)):
        bad = {str(n) for n in range(low, high + 1)}
        span, tried = bisected(LISTED, str(seen), bad.__contains__)
        assert (span.first, span.last) == (str(low), str(high))
        assert span.before == (str(low - 1) if low > 1 else "") and span.oldest is (low == 1)
        assert span.after == (str(high + 1) if high < 20 else "") and span.newest is (high == 20)
        assert span.exact and len(tried) == len({*tried}) <= 12


def test_a_release_that_cannot_be_used_is_left_out() -> None:
    unusable = {"1", "2", "20", "10"}
    span, tried = bisected(
        LISTED, "15", lambda name: None if name in unusable else 4 <= int(name) <= 17
    )
    assert (span.first, span.before, span.last, span.after) == ("4", "3", "17", "18")
    assert all(tried.count(name) <= 1 for name in LISTED)
    span, _ = bisected(["3", "2", "1"], "2", lambda name: None)
    assert (span.first, span.last, span.oldest, span.newest) == ("2", "2", True, True)
    assert bisected(["2"], "2", lambda name: True)[1] == []


def seen_in(run: str, **over: Any) -> Occurrence:
    one = Occurrence(
        prop="mutual-exclusion",
        kind="double-holder",
        promised=True,
        severity=Severity.CRITICAL,
        sentence="c1 was granted 'lock-1' at 1.5 s while c2 held it",
        call="acquire",
        after_ns=5,
        run=run,
    )
    return replace(one, **over)


def test_a_finding_with_other_numbers_and_names_is_the_same() -> None:
    two = [
        seen_in("a"),
        seen_in("b", sentence="c4 was granted 'x y' at 31 ms while c3 held it", faults=("pause",)),
        seen_in("c", sentence="c2 was granted 'lock-9' at 2 s while c1 held it: it had 1 s left"),
    ]
    (found,) = findings.distinct(two)
    assert [one.run for one in found.seen] == ["a", "c", "b"] and found.faults == ["none", "pause"]
    other = [seen_in("a"), seen_in("b", call="renew"), seen_in("c", sentence="c1 lost it")]
    assert len(findings.distinct(other)) == 3


def test_a_finding_that_needs_an_option_is_another_one_unless_it_is_seen_without() -> None:
    plain, none, zero = (
        seen_in("a"),
        seen_in("b", needs={"expire": "none"}),
        seen_in("c", needs={"expire": "zero"}),
    )
    assert len(findings.distinct([none, zero])) == 2
    (found,) = findings.distinct([none, zero, plain])
    assert found.first is plain and len(found.seen) == 3


def test_what_came_with_a_violated_promise_is_listed_with_it() -> None:
    late: dict[str, Any] = {
        "prop": "no-stale-write",
        "kind": "late",
        "sentence": "late",
        "promised": False,
    }
    dead: dict[str, Any] = {"prop": "deadlock-freedom", "kind": "deadlock", "sentence": "no grant"}
    (found,) = findings.distinct([seen_in("a"), seen_in("a", **late), seen_in("a", **dead)])
    assert [one.first.kind for one in found.also] == ["deadlock", "late"]
    assert len(findings.distinct([seen_in("a"), seen_in("b", **late)])) == 2
    assert len(findings.distinct([seen_in("a"), seen_in("a", **dead, after_ns=6)])) == 2
    # A limit hides no promise.
    two = findings.distinct([seen_in("a", **dead), seen_in("a", **late, severity=Severity.HIGH)])
    assert [one.first.promised for one in two] == [True]


def test_violated_promises_come_before_limits_and_grave_ones_before_others() -> None:
    limit = seen_in("a", promised=False)
    hung = seen_in("b", prop="no-hung-request", kind="hung", severity=Severity.HIGH)
    double = seen_in("c", kind="other", sentence="x")
    ranked = findings.distinct([limit, hung, double])
    assert [one.first.run for one in ranked] == ["c", "b", "a"]
    assert findings.exit_code(ranked, tested=True) == 1
    assert findings.exit_code(ranked[2:], tested=True) == 0
    assert findings.exit_code([], tested=False) == 3
    assert findings.exit_code(findings.distinct([seen_in("d", prop="")]), tested=True) == 0


class Inline(Executor):
    """Executes each task at once."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def hunted_with(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Plan, int], HuntRun], limit: int
) -> Hunted:
    """A hunt whose runs are those of a function of the plan and the number of the run."""
    made = itertools.count(1)
    monkeypatch.setattr(trying, "run", lambda plan, out: run(plan, next(made)))
    monkeypatch.setattr(trying, "shrink", lambda plan, wanted, budget_ns, out: None)
    found = Hunted(subject=of("redis", "8.1.0", "8.0.0", "7.0.0"), seed=1, budget_ns=3600 * SECOND)
    Hunt(found, Path("out"), Inline(), 1, lambda line: None, limit).carry_out()
    return found


def test_a_finding_is_repeated_and_its_first_bad_release_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(plan: Plan, number: int) -> HuntRun:
        bad = plan.options.get("expire") == "zero" and not plan.options["library"].endswith("7.0.0")
        shown = (seen_in(f"run-{number}"),) if bad else ()
        # The second run with 7.0.0 tested nothing: it is no evidence that the release is clean.
        held = () if bad or number == 9 else ("mutual-exclusion",)
        return HuntRun(plan=plan, run=f"run-{number}", seen=shown, held=held, tested=True, grants=9)

    hunted = hunted_with(monkeypatch, run, limit=5)
    (found,) = hunted.found
    assert (found.again, found.runs, len(hunted.trials)) == (3, 3, 5)
    assert found.first.needs == {"expire": "zero"}
    assert found.span is not None
    assert (found.span.first, found.span.before, found.span.newest) == ("8.0.0", "7.0.0", True)
    assert hunted.confirmed == 2 + 3 + 1
    row = table.table(hunted)["findings"]
    assert isinstance(row, list) and json.dumps(row[0])


def test_a_release_of_which_nothing_is_known_is_neither_bad_nor_clean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(plan: Plan, number: int) -> HuntRun:
        new = plan.options["library"].endswith("8.1.0")
        shown = (seen_in(f"run-{number}"),) if new else ()
        return HuntRun(plan=plan, run=f"run-{number}", seen=shown, grants=9)

    (found,) = hunted_with(monkeypatch, run, limit=1).found
    assert found.span is None and found.unbisected == "7.0.0 was inconclusive"


def test_an_interrupted_hunt_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(plan: Plan, number: int) -> HuntRun:
        if number == 3:
            raise KeyboardInterrupt
        return HuntRun(plan=plan, run=f"run-{number}", seen=(seen_in(f"run-{number}"),), grants=1)

    hunted = hunted_with(monkeypatch, run, limit=0)
    assert hunted.ended == "interrupted" and len(hunted.found) == 1
    assert "interrupted" in table.head(hunted)


def test_a_run_without_a_verdict_for_lack_of_processor_time_is_repeated_once_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(plan: Plan, number: int) -> HuntRun:
        # A limit that was never promised is no reason to leave it at that.
        limit = (seen_in(f"run-{number}", promised=False),)
        return HuntRun(plan=plan, run=f"run-{number}", seen=limit, starved=number < 3, grants=1)

    # Other processes may have ended when the first pass is over.
    last = 4 + len(SITUATIONS)
    numbers = [trial.number for trial, _ in hunted_with(monkeypatch, run, limit=last + 5).trials]
    assert numbers[: last + 1] == [*range(1, last + 2)]
    assert numbers[last + 1 : last + 3] == [1, 2]
    assert len({*numbers}) == len(numbers) - 2


def test_a_run_that_was_not_executed_is_counted_and_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def refused(plan: Plan, number: int) -> HuntRun:
        if number == 1:
            return HuntRun(plan=plan, run="run-1", starved=True, grants=1)
        return HuntRun(plan=plan, error="no such server", refused=True)

    hunted = hunted_with(monkeypatch, refused, limit=30)
    # Refused is the way of use, not the run: it is not tried again.
    assert hunted.errors == {"no such server": 12}
    assert not hunted.tested and findings.exit_code(hunted.found, tested=hunted.tested) == 3
    table.show(hunted)
    said = capsys.readouterr().out
    assert "12 runs: no such server" in said and "too little processor time in 1 of 13" in said


def test_a_row_names_a_run_of_each_situation_that_showed_it(capsys: Capture) -> None:
    lost, cancelled, again = (
        seen_in("a", situation="lost-replies"),
        seen_in("b", situation="cancelled-calls", faults=("cancel",)),
        seen_in("c", situation="cancelled-calls", faults=("cancel",)),
    )
    hunted = Hunted(subject=of("redis"), seed=1, budget_ns=SECOND)
    hunted.found = findings.distinct([lost, cancelled, again])
    table.show(hunted)
    said = capsys.readouterr().out
    assert "report    a/report.html\n   also in   cancelled-calls: b/report.html" in said
    assert "c/report" not in said
    (found,) = hunted.found
    assert table.by_situation(found) == {"lost-replies": "a", "cancelled-calls": "b"}


def test_a_plan_that_cannot_be_shrunk_does_not_end_the_hunt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object) -> None:
        raise UsageError("redis: unknown option expire")

    monkeypatch.setattr("holdfast.engine.shrinker.shrink_within", refused)
    assert trying.shrink(Plan(system="redis"), seen_in("a"), SECOND, tmp_path) is None


def test_the_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]

    def run(plan: Plan, out: Path) -> HuntRun:
        now_s[0] += plan.time_ns / SECOND + 11
        return HuntRun(plan=plan, run="a", tested=True, grants=1, took_s=plan.time_ns / SECOND + 11)

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(trying, "run", run)
    found = Hunted(subject=of("redis"), seed=1, budget_ns=200 * SECOND)
    Hunt(found, Path("out"), Inline(), 1, lambda line: None).carry_out()
    assert len(found.trials) > 8 and 180 < found.took_s <= 210


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sherlok"], "did you mean 'sherlock'?"),
        (["npm:nothing"], "unknown package 'npm:nothing'"),
        (["npm:nothing"], 'libraries = ["npm:nothing"]; then holdfast hunt mylock.toml'),
        (["nothing"], 'libraries = ("nothing",); then holdfast hunt mylock.py:MyLock'),
        (["redis==8;rm"], "invalid package"),
        (["redis", "--system", "etcd"], "--system etcd: redis uses the servers of redis"),
        (["redis", "--budget", "10"], "--budget: invalid duration '10'"),
        (["redis", "--releases", "0"], "expected a whole number >= 1"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    capsys: Capture, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "published", none)
    monkeypatch.setattr(runner, "executor", lambda *_: pytest.fail("a pool was started"))
    said = holdfast(capsys, "hunt", *words)
    assert (said.code, said.out) == (2, "") and says in said.err


def test_a_release_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Exception, match=r"redis has no release 99; newest: 8\.1\.0"):
        of("redis==99", "8.1.0")


@pytest.mark.real_server
def test_a_short_hunt_finds_an_easy_bug_by_itself(capsys: Capture, tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    words = ("hunt", "sherlock==0.4.1", "--budget", "60s", "--runs", "2", "--seed", "1", "--json")
    said = holdfast(capsys, *words, "--out", tmp_path)
    assert said.code == 1
    made = json.loads(said.out)
    (found,) = [one for one in made["findings"] if one["promised"]]
    assert found["property"] == "mutual-exclusion" and found["needs"] == {"expire": "none"}
    assert (Path(found["run"]) / "report.html").is_file()
