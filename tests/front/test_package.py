"""`holdfast package`: a finding as a script that needs no Holdfast, and what is refused."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from holdfast.catalogue import NEMESES
from holdfast.catalogue.findings import FINDINGS
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.programs.npm import PREFIX
from holdfast.clusters.programs.rows import PROGRAMS
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan
from holdfast.harness.properties import PROPERTIES
from holdfast.hunting import releases
from holdfast.packaging import observed, package, servers, trials
from holdfast.packaging.scripts import END, MOST_LINES, TEMPLATES, Filled, script
from holdfast.packaging.shapes import CALLS, IMPOSSIBLE, SHAPES, SYSTEMS
from tests import needs
from tests.clusters.driving import eventually
from tests.front.said import holdfast
from tests.front.test_runs import run

WORDS = ("--system", "redis", "--library", "redis==8.1.0", "--time", "4s")
WIDEST = 100
HOSTILE = 'x"); import os; os._exit(7)  # \'"""\n$lease {lease}'
EVERY = [(name, library) for name, shape in SHAPES.items() for library in shape.libraries]
PYTHON = [(name, library) for name, library in EVERY if not library.startswith((PREFIX, "deb:"))]


def filled(name: str, library: str, package: str = "", lock: str = "lock-1") -> Filled:
    """What a run of a library says, for a shape."""
    found = [called for called in CALLS if called.partition("/")[0] == library]
    wanted = SHAPES[name].options.get("api", "")
    apis = [called.partition("/")[2] for called in found if called.endswith(wanted)]
    api = "" if library in CALLS else apis[0]
    return Filled(library=library, api=api, package=package or f"{library}==1.0", lock=lock)


@pytest.mark.real_server
def test_a_double_grant_is_packaged_and_its_script_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    ran = run(tmp_path, *WORDS, "--set", "expire=zero", codes=(1,))
    target = tmp_path / "package"
    said = holdfast(capsys, "package", str(ran.run_dir), "--out", str(target), "--fresh")
    assert said.code == 0, said.err
    assert "in 5 of 5 trials" in said.out
    assert "in a new environment: 5 of 5 trials" in said.out
    text = (target / "reproduce.py").read_text()
    assert "holdfast" not in text.lower()
    assert "redis==8.1.0" in (target / "requirements.txt").read_text().splitlines()
    assert ET.parse(target / "finding.svg").getroot().tag.endswith("svg")
    issue = (target / "issue.md").read_text()
    assert "two owners" in issue
    assert "expire=zero" in issue
    measured = msgspec.json.decode(
        (target / "measured.json").read_bytes(), type=package.PackageRecord
    )
    assert (measured.shape, measured.shown, measured.fresh) == ("double-grant", 5, 5)
    again = holdfast(capsys, "package", str(ran.run_dir), "--out", str(target))
    assert again.code == 2
    assert "exists; choose another folder with --out" in again.err


@pytest.mark.real_server
def test_a_script_that_does_not_show_the_finding_is_not_packaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    ran = run(tmp_path, *WORDS, "--set", "expire=zero", codes=(1,))
    # Without the first owner's renewal the library keeps the lock.
    monkeypatch.setattr(observed, "_renewals", lambda run, finding: 0)
    target = tmp_path / "package"
    said = holdfast(capsys, "package", str(ran.run_dir), "--out", str(target))
    assert said.code == 2
    assert "shows it in 0 of 5 trials" in said.err
    assert "one that does not: not shown" in said.err
    assert not target.exists()


SHOWN = [
    ("cancelled-acquire", "redis==8.1.0", "asyncio", 1),
    ("cancelled-release", "redis==7.1.0", "asyncio", 1),
    ("cancelled-release", "redis==8.1.0", "asyncio", 0),
    ("stale-reply", "redis==4.5.1", "asyncio", 1),
    ("stale-reply", "redis==8.1.0", "asyncio", 0),
    ("lost-reply", "redis==8.1.0", "sync", 1),
    ("clock-stepped", "redlock-ng==2.0.4", "sync", 1),
    ("forked-child", "sherlock==0.4.1", "sync", 1),
]
"""Shape, package, interface, exit code: a bug with its release, and the release without it."""


@pytest.mark.real_server
@pytest.mark.parametrize(("name", "pin", "api", "code"), SHOWN)
def test_a_script_shows_the_bug_and_not_the_fixed_release(
    name: str, pin: str, api: str, code: int
) -> None:
    needs.binary("redis-server")
    library = pin.partition("==")[0]
    mine, row = filled(name, library, package=pin), LIBRARIES[library]
    assert mine.api == api
    environment = trials.fetched(mine, (pin, *row.pins), row.built)
    text = script(name, SHAPES[name], mine)
    done = trials.tried(text, mine, SHAPES[name].server, environment, times=2)
    assert [one.code for one in done] == [code, code], done
    assert [one.shown for one in done] == [bool(code)] * 2


@pytest.mark.real_server
def test_a_script_of_npm_shows_the_bug() -> None:
    needs.binary("redis-server")
    needs.binary("node")
    row = PROGRAMS["redlock", "npm:redlock"]
    mine = filled("using-cut-off", "npm:redlock")
    environment = trials.fetched(mine, (f"redlock@{row.version}", *row.beside))
    text = script("using-cut-off", SHAPES["using-cut-off"], mine)
    (done,) = trials.tried(text, mine, "redlock", environment, times=1)
    assert done.shown, done


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("name", "needed"), [("etcd", "etcd"), ("zookeeper", "java"), ("postgres", "initdb")]
)
def test_a_stock_server_of_each_kind_starts_and_ends(
    tmp_path: Path, name: str, needed: str
) -> None:
    needs.binary(needed)
    with servers.running(name, tmp_path) as ports:
        assert all(servers.listens(port) for port in ports)
    assert not any(servers.listens(port) for port in ports)


def test_a_run_without_such_a_finding_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--system", "reference", "--backend", "sim", "--time", "1s")
    ran = run(tmp_path, *words, codes=(0, 3))
    said = holdfast(capsys, "package", str(ran.run_dir))
    assert said.code == 2
    assert "has no violation" in said.err


def titled(library: str) -> str:
    """A long name and version of what a script shows the bug of."""
    for name, row in SYSTEMS.items():
        if library in (f"system:{name}", f"system:{row.programs}"):
            return f"{row.package} 99.99.99"
    return f"{library}==99.99.99"


@pytest.mark.parametrize(("name", "library"), EVERY)
def test_every_script_is_short_and_complete(name: str, library: str) -> None:
    mine = filled(name, library, package=titled(library))
    lines = script(name, SHAPES[name], mine).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDEST
    assert not [line for line in lines if "holdfast" in line.lower() or "$" in line[:4]]


@pytest.mark.parametrize(("name", "library"), PYTHON)
def test_what_a_run_directory_says_does_not_become_code(name: str, library: str) -> None:
    plain = ast.parse(script(name, SHAPES[name], filled(name, library)))
    hostile = ast.parse(script(name, SHAPES[name], filled(name, library, lock=HOSTILE)))
    names = [n.value for n in ast.walk(hostile) if isinstance(n, ast.Constant)]
    assert HOSTILE in names
    for node in ast.walk(hostile):
        if isinstance(node, ast.Constant) and node.value == HOSTILE:
            node.value = "lock-1"
    assert ast.dump(hostile) == ast.dump(plain)


def test_a_lock_name_is_a_literal_of_javascript_too() -> None:
    text = script(
        "using-cut-off",
        SHAPES["using-cut-off"],
        filled("using-cut-off", "npm:redlock", lock=HOSTILE),
    )
    assert msgspec.json.encode(HOSTILE).decode() in text


def test_an_exit_code_without_a_named_violation_shows_nothing() -> None:
    assert trials.Trial(code=1, said="first: True\nVIOLATION: two owners\n").shown
    assert not trials.Trial(code=1, said="Traceback (most recent call last):").shown
    assert not trials.Trial(code=0, said="VIOLATION: two owners").shown


def test_an_error_within_a_script_is_no_violation(tmp_path: Path) -> None:
    path = tmp_path / "reproduce.py"
    path.write_text(
        "import sys\n\n\ndef main():\n    raise OSError\n" + END.replace("$run", "main()")
    )
    done = subprocess.run([sys.executable, "-S", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "could not run: OSError()\n")


def test_the_tables_name_what_exists() -> None:
    for name, shape in SHAPES.items():
        assert shape.property in PROPERTIES
        assert {kind.partition(":")[0] for kind in shape.faults} <= {*NEMESES}
        assert shape.server in servers.SERVERS
        assert shape.cancelled in ("", "acquire", "release")
        assert shape.libraries
        assert list(TEMPLATES.glob(f"{name.replace('-', '_')}.*"))
    assert set(IMPOSSIBLE) <= {*NEMESES}
    known = {*LIBRARIES, *(name for _, name in PROGRAMS), *(f"system:{name}" for name in SYSTEMS)}
    known |= {f"system:{row.programs}" for row in SYSTEMS.values() if row.programs}
    assert {library for _, library in EVERY} <= known
    used = {path.name.split(".")[0] for path in TEMPLATES.iterdir()}
    assert used == {name.replace("-", "_") for name in SHAPES}


def found(**words: Any) -> Any:
    """A judged run with one finding of a promised property, and its run directory."""
    event = SimpleNamespace(op="acquire", attempt=1, t_ret_ns=1)
    finding = SimpleNamespace(lock="lock-1", witnesses=[event], t_ns=5)
    kinds = [SimpleNamespace(do=kind, effective=True, evidence={}) for kind in words["kinds"]]
    promised = words.get("promised", True)
    verdict = SimpleNamespace(promised=promised, findings=[finding], property=words["property"])
    judged = SimpleNamespace(run="r", verdicts=[verdict], faults=kinds)
    plan = Plan(system=words["system"], options=words["options"])
    return SimpleNamespace(read_manifest=lambda: SimpleNamespace(plan=plan)), judged


ASYNCIO = {"library": "redis==8.1.0", "api": "asyncio", "expire": "none"}


@pytest.mark.parametrize(
    ("last", "shape"), [("acquire", "cancelled-acquire"), ("release", "cancelled-release")]
)
def test_the_cancelled_call_decides_on_the_shape(
    monkeypatch: pytest.MonkeyPatch, last: str, shape: str
) -> None:
    monkeypatch.setattr(observed, "_cancelled", lambda run, finding: last)
    case = found(system="redis", options=ASYNCIO, kinds=["cancel"], property="orphan-freedom")
    assert [one.name for one in observed.candidates(*case)] == [shape]


@pytest.mark.parametrize(
    ("system", "library", "kinds", "shapes"),
    [
        ("redlock", "redlock-ng==2.0.4", ["clock"], ["clock-stepped"]),
        ("redis", "sherlock==0.4.1", ["fork"], ["forked-child"]),
    ],
)
def test_what_is_not_promised_needs_a_fault_of_its_shape(
    system: str, library: str, kinds: list[str], shapes: list[str]
) -> None:
    words: dict[str, Any] = {"system": system, "options": {"library": library}}
    words |= {"property": "mutual-exclusion", "promised": False}
    found_ones = observed.candidates(*found(kinds=kinds, **words))
    assert [one.name for one in found_ones] == shapes
    with pytest.raises(UsageError, match="no script template shows mutual-exclusion"):
        observed.candidates(*found(kinds=[], **words))


@pytest.mark.parametrize(
    ("kinds", "options", "why"),
    [
        (["failpoint"], ASYNCIO, "a thread of the server has to be held at a function"),
        (["pause"], ASYNCIO, "no script template shows orphan-freedom of redis==8.1.0 under pause"),
        ([], {}, "no script template shows orphan-freedom of redis-server without faults"),
        ([], {"library": "deb:x"}, "is no known package"),
        ([], {"library": "redis==8 --index-url=x"}, "is no package and version"),
        ([], {"library": "npm:redlock@5; rm"}, "is no known package and version"),
    ],
)
def test_what_no_script_can_show_is_refused_with_the_reason(
    kinds: list[str], options: dict[str, str], why: str
) -> None:
    case = found(system="redis", options=options, kinds=kinds, property="orphan-freedom")
    with pytest.raises(UsageError, match=why):
        observed.candidates(*case)


def test_a_system_without_shapes_is_refused() -> None:
    case = found(system="memcached", options={}, kinds=[], property="orphan-freedom")
    with pytest.raises(UsageError, match="there is no script template for them"):
        observed.candidates(*case)


@pytest.mark.parametrize("version", ["8.1.0 --index-url=x", '8.1.0"', "../x", "1\n"])
def test_a_library_that_is_no_version_is_refused(version: str) -> None:
    manifest: Any = SimpleNamespace(
        plan=Plan(system="redis", options={"library": f"redis=={version}"})
    )
    with pytest.raises(UsageError):
        observed.library_of(manifest)


def test_a_library_in_another_release_keeps_what_it_imports() -> None:
    manifest: Any = SimpleNamespace(
        plan=Plan(system="redis", options={"library": "redis==7.1.0", "api": "asyncio"})
    )
    library = observed.library_of(manifest)
    assert library.of("8.1.0").pins == ("redis==8.1.0", *LIBRARIES["redis"].pins)
    assert package.known_fixed(library, FINDINGS["redis-py-3847"].breaks) == "8.1.0"
    assert package.known_fixed(library, "mutual-exclusion") == ""


def test_releases_are_bisected_with_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {"4": False, "3": True, "2": True, "1": None}
    asked = iter([bad["4"], bad["1"], bad["2"]])
    monkeypatch.setattr(releases, "published", lambda name: ["4", "3", "2", "1"])
    monkeypatch.setattr(trials, "shows", lambda *_, **__: next(asked))
    mine = dataclasses.replace(filled("cancelled-release", "redis"), package="redis==3")
    library = observed.Library(
        name="redis", version="3", package="redis==3", pins=("redis==3",), api="asyncio"
    )
    shape = SHAPES["cancelled-release"]
    chosen: Any = SimpleNamespace(filled=mine, shape=shape)
    record = package.PackageRecord(package="redis==3", shape="x", property="x", lines=1, shown=5)
    record = package._with_releases(record, chosen, "", library, package.Asked(releases=4))
    assert record.releases == {"3": True, "4": False, "1": None, "2": True}
    assert record.span == (
        "first bad release 2, the oldest one tried, last bad release 3 (first good one 4)"
    )


HOLDS_A_SERVER = """
import sys, time
from pathlib import Path
from holdfast.packaging import servers
with servers.running("redis", Path(sys.argv[1])) as ports:
    print(ports[0], flush=True)
    time.sleep(600)
"""


@pytest.mark.real_server
def test_a_server_of_a_trial_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    needs.binary("redis-server")
    words = [sys.executable, "-P", "-c", HOLDS_A_SERVER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        port = int(command.stdout.readline())
        assert servers.listens(port)
        command.kill()
    eventually(lambda: not servers.listens(port))
