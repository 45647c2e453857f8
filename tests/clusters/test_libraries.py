"""The folders of libraries: what doctor says of one that is there, is not there, or is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.clusters.libraries import environments
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import OPTIONS, entry
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.loading import load

PINS = ("Some.Lock==1.0.2", "beside_it==3")


def test_a_folder_is_missing_then_there_then_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "not fetched yet" in str(environments.problem(PINS))
    folder = environments.folder(PINS)
    for name in ("some_lock-1.0.2", "beside_it-3"):
        (folder / f"{name}.dist-info").mkdir(parents=True)
    assert environments.problem(PINS) is None
    assert environments.fetch(PINS) == folder
    (folder / "beside_it-3.dist-info").rmdir()
    told = str(environments.problem(PINS))
    assert told.startswith("broken: beside_it==3 missing in")
    assert "remove that folder" in told


PIP = """#!/bin/sh
echo run >> "$0.calls"
echo "Collecting Some.Lock==1.0.2"
{does}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pip that does as a test says, by `write`; each start of it is a line of this file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "pip"))
    return tmp_path / "pip.calls"


def write(calls: Path, does: str) -> None:
    pip = calls.with_suffix("")
    pip.write_text(PIP.format(does=does))
    pip.chmod(0o755)


def test_a_fetch_that_fails_is_tried_again_so_often_and_says_what_it_does(calls: Path) -> None:
    write(calls, "echo 'ERROR: connection broken'; exit 1")
    told: list[str] = []
    with pytest.raises(EnvironmentFailed, match="in 3 attempts: ERROR: connection broken"):
        environments.fetch(PINS, (), told.append)
    assert len(calls.read_text().splitlines()) == environments.ATTEMPTS
    assert told[:2] == [f"fetching {', '.join(PINS)} with pip", "Collecting Some.Lock==1.0.2"]
    assert told[-2].endswith("(attempt 3 of 3)")
    # The second attempt of another fetch goes through; nothing half-fetched is left of the first.
    write(calls, '[ $(wc -l < "$0.calls") -ge 5 ] || exit 1')
    assert environments.fetch(PINS) == environments.folder(PINS)
    assert [path.name for path in environments.cache().iterdir()] == [
        environments.folder(PINS).name
    ]


def test_a_version_that_is_not_there_is_refused_at_once_with_those_that_are(calls: Path) -> None:
    wrong = "Could not find a version that satisfies the requirement Some.Lock==1.0.2"
    write(calls, f"echo 'ERROR: {wrong} (from versions: 1.0.0, 1.0.3)'; exit 1")
    with pytest.raises(UsageError, match=r"no Some.Lock==1.0.2 .* found 1.0.0, 1.0.3"):
        environments.fetch(PINS)
    assert len(calls.read_text().splitlines()) == 1
    # Without an index nothing is known of its versions: that is no mistake of the user's.
    write(calls, f"echo 'ERROR: {wrong} (from versions: none)'; exit 1")
    with pytest.raises(EnvironmentFailed):
        environments.fetch(PINS)


def test_a_fetch_that_falls_silent_is_ended(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "SILENT_S", 0.2)
    write(calls, "exec tail -f /dev/null")
    with pytest.raises(EnvironmentFailed, match=r"no output for 0\.2 s"):
        environments.fetch(PINS)


def test_an_adapter_that_lacks_what_it_imports_is_told_with_the_reason(tmp_path: Path) -> None:
    adapter = "holdfast.clusters.libraries.adapters.redis_py"
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "__init__.py").write_text("class Redis: ...\n")
    (tmp_path / "redis" / "exceptions.py").write_text("class LockError(Exception): ...\n")
    assert "cannot import name 'LockNotOwnedError'" in environments.unusable(tmp_path, adapter)
    (tmp_path / "redis" / "exceptions.py").write_text(
        "class LockError(Exception): ...\nLockNotOwnedError = LockError\n"
    )
    assert environments.unusable(tmp_path, adapter) == ""


def test_dependencies_that_only_older_interpreters_need_are_fetched_too(calls: Path) -> None:
    metadata = "\n".join(
        [
            "Name: Some.Lock",
            'Requires-Dist: async-timeout>=4.0.3; python_full_version < "3.11.3"',
            'Requires-Dist: there>=1; python_version < "3.12"',
            'Requires-Dist: excluded>=1; python_version < "3.9"',
            'Requires-Dist: excluded-too>=1; python_version <= "3.10"',
            'Requires-Dist: fast==2; extra == "fast"',
            'Requires-Dist: newer>=1; python_version >= "3.99"',
        ]
    )
    # "--target FOLDER" is what stands before the packages.
    does = f"""
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/some_lock-1.0.2.dist-info" "$2/there-1.dist-info"
printf '%s' '{metadata}' > "$2/some_lock-1.0.2.dist-info/METADATA"
echo "$@" >> "$0.asked"
"""
    write(calls, does)
    folder = environments.fetch(PINS, dependencies=True)
    assert folder != environments.folder(PINS)
    asked = calls.with_name("pip.asked").read_text().splitlines()
    assert [line.split()[2:] for line in asked] == [list(PINS), ["async-timeout>=4.0.3"]]
    assert (
        environments.problem(PINS[:1], dependencies=True)
        == "not fetched yet; the first run fetches it with pip"
    )


def test_a_dependency_of_older_interpreters_that_cannot_be_fetched_is_left_out(
    calls: Path,
) -> None:
    metadata = 'Requires-Dist: backport>=4; python_full_version < "3.11.3"'
    does = f"""
while [ "$1" != --target ]; do shift; done
case "$3" in backport*) echo 'ERROR: requires a different Python' ; exit 1 ;; esac
mkdir -p "$2/some_lock-1.0.2.dist-info"
printf '%s' '{metadata}' > "$2/some_lock-1.0.2.dist-info/METADATA"
"""
    write(calls, does)
    told: list[str] = []
    folder = environments.fetch(PINS, (), told.append, dependencies=True)
    assert [path.name for path in folder.iterdir()] == ["some_lock-1.0.2.dist-info"]
    assert told[-1].startswith("without backport>=4, which only older interpreters need: ERROR: ")


NO_WHEEL = """
case "$*" in *--only-binary*)
  echo 'ERROR: Could not find a version that satisfies the requirement {pin} (from versions: {has})'
  exit 1 ;;
esac
"""


@pytest.mark.parametrize("has", ["none", "0.9, 1.0.0"])
def test_a_package_with_a_source_only_is_built(calls: Path, has: str) -> None:
    does = """
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/some_lock-1.0.2.dist-info"
"""
    write(calls, NO_WHEEL.format(pin=PINS[0], has=has) + does)
    told: list[str] = []
    folder = environments.fetch(PINS, (), told.append, dependencies=True)
    assert (folder / "some_lock-1.0.2.dist-info").is_dir()
    assert "no built Some.Lock==1.0.2 for this interpreter: building it from its source" in told
    assert len(calls.read_text().splitlines()) == 2


BUILD = """
cat <<'END'
  error: subprocess-exited-with-error
  x python setup.py egg_info did not run successfully.
  | exit code: 1
  +-> [6 lines of output]
      Traceback (most recent call last):
        File "setup.py", line 3, in <module>
      ModuleNotFoundError: No module named 'distribute_setup'
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed
hint: See above for details.
END
exit 1
"""


def test_a_source_that_cannot_be_built_is_told_once_with_its_reason(calls: Path) -> None:
    write(calls, NO_WHEEL.format(pin=PINS[0], has="none") + BUILD)
    with pytest.raises(EnvironmentFailed, match=r"No module named 'distribute_setup'$"):
        environments.fetch(PINS, dependencies=True)
    assert len(calls.read_text().splitlines()) == 2, "another attempt would fail the same way"


def test_a_version_that_has_no_source_either_is_refused_at_once(calls: Path) -> None:
    wrong = "Could not find a version that satisfies the requirement Some.Lock==1.0.2"
    write(calls, f"echo 'ERROR: {wrong} (from versions: 1.0.0, 1.0.3)'; exit 1")
    with pytest.raises(UsageError, match=r"no Some.Lock==1.0.2; found 1.0.0, 1.0.3"):
        environments.fetch(PINS, dependencies=True)
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize("package", LIBRARIES)
@pytest.mark.parametrize(
    ("option", "known"), [("way", "ways"), ("expire", "leases"), ("renew", "renewals")]
)
def test_a_use_that_an_adapter_does_not_have_is_refused(
    package: str, option: str, known: str
) -> None:
    row = LIBRARIES[package]
    system = load(entry(row.system, {"library": package}))
    supported = getattr(row, known)
    for value in OPTIONS[option]:
        options = {"library": package, option: value}
        if value in supported:
            system.promises(options)
        else:
            with pytest.raises(UsageError, match=f"{package}: invalid {option}={value}: its ad"):
                system.promises(options)
