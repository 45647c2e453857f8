"""Packages of other languages: what is installed, what is promised, and what npm's failures say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.libraries.system import KEPT
from holdfast.clusters.programs import debian, npm
from holdfast.clusters.programs.golang import GO
from holdfast.clusters.programs.java import JAVA
from holdfast.clusters.programs.rows import FOLDER, PROGRAMS, named, pinned
from holdfast.clusters.programs.system import entry
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.fault_traits import CLASSES
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import ABILITIES, Able, Installs
from holdfast.harness.plans.plan import Plan
from holdfast.harness.properties import PROPERTIES
from holdfast.planning.prepare import complete
from holdfast.planning.resolve import resolve
from tests import needs

REDLOCK = PROGRAMS["redlock", "npm:redlock"]


@pytest.mark.parametrize(("system", "package"), PROGRAMS)
def test_every_row_has_a_program_and_promises_with_a_source(system: str, package: str) -> None:
    row = PROGRAMS[system, package]
    assert (FOLDER / row.program).is_file()
    made: Any = load(entry(system, {"library": package}))
    assert isinstance(load(entry(system, {"library": package})), Installs)
    for renew in row.renewals:
        promises = with_kinds(made.promises({"library": package, "renew": renew}))
        assert promises.keeps.keys() <= PROPERTIES.keys()
        assert row.source in promises.sheet["evidence"]
        plain = made.promises({"library": package, "renew": renew}).keeps["mutual-exclusion"]
        assert set(plain) == {*KEPT} - {*row.unsafe.get(renew, ())} and {*KEPT} <= CLASSES.keys()
        assert CLASSES.keys() >= {*row.unsafe.get(renew, ())}
        assert promises.bound == (row.bound if renew == "call" else "none")


@pytest.mark.parametrize(
    ("system", "package", "api"),
    [(*place, api) for place, row in PROGRAMS.items() for api in row.kinds],
)
def test_a_kind_of_lock_has_its_program_its_abilities_and_its_source(
    system: str, package: str, api: str, tmp_path: Path
) -> None:
    row = PROGRAMS[system, package]
    own = row.of(api)
    assert api in row.apis and (FOLDER / own.program).is_file()
    options = {"library": package, "api": api}
    made: Any = load(entry(system, options))
    assert isinstance(load(entry(system, options)), Able)
    assert set(made.abilities(options)) <= ABILITIES.keys()
    assert own.source in made.promises(options).sheet["evidence"]
    given = made.ship(tmp_path, tmp_path / "program", options)
    argv = json.loads(given["argv"])
    assert json.loads(given["abilities"]) == [*own.abilities] and f"api={api}" in argv
    if own.program != row.program:
        assert Path(own.program).stem in argv
        with pytest.raises(UsageError, match="invalid tokens=czxid"):
            made.promises({**options, "tokens": "czxid"})


@pytest.mark.parametrize(
    ("library", "package", "version"),
    [
        ("npm:redlock", "npm:redlock", ""),
        ("npm:redlock@5", "npm:redlock", "5"),
        ("npm:@scope/name@1.4.0", "npm:@scope/name", "1.4.0"),
    ],
)
def test_a_name_is_a_package_and_a_version(library: str, package: str, version: str) -> None:
    assert named(library) == (package, version)


@pytest.mark.parametrize("wanted", ["", "5", "5.0", REDLOCK.version])
def test_the_beginning_of_a_version_is_the_one_that_was_tried(wanted: str) -> None:
    assert pinned("npm:redlock", REDLOCK, wanted) == REDLOCK.version


def test_another_tried_version_has_a_program_of_its_own() -> None:
    version = pinned("npm:redlock", REDLOCK, "4")
    assert version in REDLOCK.others
    assert REDLOCK.program_of(version) != REDLOCK.program_of(REDLOCK.version)
    assert (FOLDER / REDLOCK.program_of(version)).is_file()


def test_a_package_is_not_said_to_renew_where_the_program_of_its_version_does_not() -> None:
    """redlock 4 has no `using`: its holds end with their leases."""
    library = entry("redlock", {"library": "npm:redlock@4"})
    with pytest.raises(UsageError, match="renew=library"):
        load(library).promises({"renew": "library"})
    assert load(library).promises({}).bound == "lease"
    newer = load(entry("redlock", {"library": "npm:redlock"}))
    assert newer.promises({"renew": "library"}).bound == "none"
    assert newer.promises({"renew": "library"}).lapses and not newer.promises({}).lapses


def test_a_notice_is_promised_where_the_package_renews_and_one_owner_can_lose_its_lock() -> None:
    mutex = load(entry("redis", {"library": "npm:redis-semaphore"}))
    assert mutex.promises({"renew": "library"}).keeps["loss-notice"] == ("stops",)
    assert "loss-notice" not in mutex.promises({"renew": "call"}).keeps
    assert "loss-notice" not in mutex.promises({"api": "semaphore"}).keeps


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"library": "npm:redlok"}, "no client program for 'npm:redlok' .available: npm:redlock"),
        ({"library": "npm:"}, "invalid library 'npm:': expected npm:PACKAGE@VERSION or deb"),
        ({"library": "npm:redlock@3"}, "invalid version '3' of npm:redlock: expected a whole"),
        ({"library": "npm:redlock", "renew": "twice"}, "invalid renew=twice: expected one of"),
        ({"library": "npm:redlock", "way": "with"}, "unknown option way"),
    ],
)
def test_what_cannot_be_chosen_is_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve(Plan(system="redlock", options=options))


def test_a_program_runs_only_where_its_interpreter_is() -> None:
    plan = Plan(system="redlock", backend="docker", options={"library": "npm:redlock"})
    with pytest.raises(UsageError, match=r"redlock runs a client program, .*: use --backend local"):
        complete(plan)


NPM = """#!/bin/sh
echo run >> "$0.calls"
{does}
"""
RECORD = {
    "packages": {
        "node_modules/a": {"version": "v1.0.0"},
        "node_modules/a/node_modules/@s/b": {"version": "2.0.0"},
    }
}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A npm that does as a test says, by `write`; each start of it is a line of this file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "npm.calls"


def write(calls: Path, does: str) -> None:
    program = calls.with_suffix("")
    program.write_text(NPM.format(does=does))
    program.chmod(0o755)


# "--prefix=FOLDER" is where npm is to write.
INSTALLS = f"""
for word; do case $word in --prefix=*) at=${{word#--prefix=}};; esac; done
mkdir -p "$at/node_modules"
printf '%s' '{json.dumps(RECORD)}' > "$at/node_modules/.package-lock.json"
echo "npm http fetch GET 200 http://index/a/-/a-1.0.0.tgz 5ms" >&2
"""


def test_a_folder_appears_with_progress_and_has_the_versions_of_all(calls: Path) -> None:
    write(calls, INSTALLS)
    told: list[str] = []
    assert npm.problem(["a@1.0.0"]) == "not fetched yet; the first run fetches it with npm"
    folder = npm.fetch(["a@1.0.0"], told.append)
    assert told == ["fetching a@1.0.0 with npm", "fetched a-1.0.0.tgz"]
    assert npm.installed(folder) == ["npm:a@1.0.0", "npm:@s/b@2.0.0"]
    assert npm.problem(["a@1.0.0"]) is None
    assert npm.fetch(["a@1.0.0"]) == folder
    assert len(calls.read_text().splitlines()) == 1
    (folder / npm.INSTALLED).write_text("{}")
    assert str(npm.problem(["a@1.0.0"])).startswith("broken: a@1.0.0 missing in")


def test_a_fetch_that_fails_is_tried_again_and_one_without_such_a_version_is_not(
    calls: Path,
) -> None:
    write(calls, "echo 'npm ERR! code ECONNRESET' >&2; echo 'npm ERR! broken' >&2; exit 1")
    with pytest.raises(EnvironmentFailed, match=r"could not fetch a@1 in 3 attempts: broken"):
        npm.fetch(["a@1"])
    assert len(calls.read_text().splitlines()) == 3
    said = "npm error code ETARGET' >&2; echo 'npm error notarget No matching version for a@1."
    write(calls, f"echo '{said}' >&2; exit 1")
    with pytest.raises(UsageError, match=r"no such package or version: No matching version for a"):
        npm.fetch(["a@1"])
    assert len(calls.read_text().splitlines()) == 4


def test_a_machine_without_node_or_with_an_old_one_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert npm.missing() == "node and npm missing: install Debian's packages nodejs and npm"
    made: Any = load(entry("redlock", {"library": "npm:redlock"}))
    with pytest.raises(UsageError, match="npm:redlock: node and npm missing"):
        made.install(lambda line: None)
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v16.1.0\n")
        (tmp_path / name).chmod(0o755)
    assert npm.missing() == "node v16.1.0 is too old: 18 is the oldest"


def test_a_package_of_debian_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "_installed", {"a": "5.4.0-3", "b": "5.40.0-1"}.get)
    assert debian.problem(["a@5.4.0"]) is None
    assert debian.problem(["b@5.4.0"]) == "b is installed in version 5.40.0-1, not 5.4.0"
    assert debian.problem(["c@1.0.0"]) == "missing: install Debian's package c"
    with pytest.raises(UsageError, match="missing: install Debian's package c"):
        debian.fetch(["c@1.0.0"], FOLDER / "jvm" / "CuratorMutex.java", lambda line: None)
    assert debian.versions(["a@5.4.0"]) == ["deb:a@5.4.0-3"]
    monkeypatch.setenv("PATH", "")
    wanted = "java and javac missing: install Debian's package default-jdk-headless"
    assert JAVA.missing() == wanted


GO_COMPILER = """#!/bin/sh
echo "$GO111MODULE $GOPATH $GOCACHE" >> "$0.calls"
{does}
"""
COMPILES = """
while [ "$1" != -o ]; do shift; done
echo "$@" > "$2"
"""
MUTEX = FOLDER / "go" / "etcd_mutex.go"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a compiler for Go is looked for, with the package a in version 1.0.0 installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(debian, "_installed", {"a": "1.0.0-1"}.get)
    return tmp_path / "go"


def compiles(compiler: Path, does: str) -> None:
    compiler.write_text(GO_COMPILER.format(does=does))
    compiler.chmod(0o755)


def test_a_program_in_go_is_compiled_once_with_its_own_sources_only(compiler: Path) -> None:
    compiles(compiler, COMPILES)
    told: list[str] = []
    folder = debian.fetch(["a@1.0.0"], MUTEX, told.append)
    assert told == ["compiling etcd_mutex.go with go (the first time, its libraries too: a minute)"]
    assert GO.started(str(MUTEX), folder) == [str(folder / "etcd_mutex")]
    sources = (folder / "etcd_mutex").read_text().split()[2:]
    assert sources == [str(MUTEX.with_name("protocol.go")), str(MUTEX)]
    assert debian.fetch(["a@1.0.0"], MUTEX, told.append) == folder
    calls = compiler.with_suffix(".calls").read_text().splitlines()
    assert calls == [f"off /usr/share/gocode {compiler.parent}/cache/holdfast/go"]
    assert debian.fetch(["a@1.0.0"], FOLDER / "go" / "zk_lock.go", told.append) != folder


def test_a_program_in_go_that_cannot_be_compiled_is_told_with_the_error(compiler: Path) -> None:
    compiles(compiler, "echo 'protocol.go:3: cannot find package' >&2; exit 1")
    with pytest.raises(EnvironmentFailed, match=r"go could not compile etcd_mutex.go: protocol.go"):
        debian.fetch(["a@1.0.0"], MUTEX, lambda line: None)


def test_a_machine_without_go_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made: Any = load(entry("etcd", {"library": "deb:golang-etcd-server-dev"}))
    assert made.problem() == "go missing: install Debian's package golang-go"
    with pytest.raises(UsageError, match="golang-etcd-server-dev: go missing: install Debian's"):
        made.install(lambda line: None)


UNSURE = """
import {{ serve }} from "{protocol}";
serve(() => ({{
  acquire: (request) => {{
    if (request.attempt === 2) throw new Error("the connection was closed");
    return request.attempt === 1 ? null : {{}};
  }},
  release: () => true,
}}));
"""


def test_a_package_knows_nothing_of_a_lock_whose_acquire_raised(tmp_path: Path) -> None:
    """The servers may have granted it: "not the owner" would be a claim without a reason."""
    node = needs.binary("node")
    program = tmp_path / "program.mjs"
    protocol = (FOLDER / "node" / "protocol.mjs").resolve()
    program.write_text(UNSURE.format(protocol=protocol.as_uri()))
    asked = [
        {"id": 3 * attempt + n, "op": op, "attempt": attempt, "lock": "db"}
        for attempt in (1, 2, 3)
        for n, op in enumerate(("acquire", "release"))
    ]
    ended = subprocess.run(
        [node, str(program), str(tmp_path), "some", "127.0.0.1:1", "1000"],
        input="".join(f"{json.dumps(line)}\n" for line in asked),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    answers = {line["id"]: line["outcome"] for line in map(json.loads, ended.stdout.splitlines())}
    assert [answers[line["id"]] for line in asked] == [
        *("fail", "not_owner"), *("info", "info"), *("ok", "ok"),
    ]  # fmt: skip
