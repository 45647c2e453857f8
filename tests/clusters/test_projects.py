"""The packages of a project as it declares them: requirement files, locks, an environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.catalogue import own_packages
from holdfast.clusters.libraries import environments, projects
from holdfast.clusters.programs import npm
from holdfast.harness.core.errors import UsageError

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
PIP = """#!/bin/sh
echo "$@" >> "$0.calls"
while [ $# -gt 0 ]; do
  case "$1" in
    --target) mkdir -p "$2/some_lock-1.0.2.dist-info" "$2/beside-3.dist-info" ;;
    --constraint) cat "$2" >> "$0.constraints" ;;
  esac
  shift
done
"""
NPM = """#!/bin/sh
echo "$@" >> "$0.calls"
for word; do case $word in --prefix=*) at=${word#--prefix=};; esac; done
ls "$at" >> "$0.calls"
mkdir -p "$at/node_modules"
cd "$at/node_modules"
echo '{"packages": {"node_modules/a": {"version": "1.0.0"}}}' > .package-lock.json
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pip; what it is called with is a line of this file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "pip"))
    (tmp_path / "pip").write_text(PIP)
    (tmp_path / "pip").chmod(0o755)
    return tmp_path / "pip.calls"


def write(folder: Path, **files: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text)


def fetched(base: Path, *entries: str) -> own_packages.Packages:
    return own_packages.found(base, entries, "", lambda line: None)


def test_a_requirement_file_is_given_to_pip_and_the_versions_are_those_installed(
    tmp_path: Path, calls: Path
) -> None:
    project = tmp_path / "project"
    write(project, requirements_DOT_txt="some-lock\n-r more.txt\n", more_DOT_txt="beside>=2\n")
    found = fetched(project, "requirements.txt", "redis==5.0.8")
    assert found.versions == ["beside==3", "some_lock==1.0.2"]
    words = calls.read_text().split()
    at = words.index("--requirement")
    assert words[at:] == ["--requirement", str(project / "requirements.txt"), "redis==5.0.8"]
    assert fetched(project, "requirements.txt", "redis==5.0.8") == found
    assert len(calls.read_text().splitlines()) == 1, "what is there is not fetched again"


def test_a_change_in_a_file_that_a_requirement_file_names_is_another_folder(tmp_path: Path) -> None:
    write(tmp_path, requirements_DOT_txt="-r more.txt\n", more_DOT_txt="beside==2\n")

    def folder() -> Path:
        return environments.folder((), more=projects.read(tmp_path, ["requirements.txt"]))

    before = folder()
    assert folder() == before
    write(tmp_path, more_DOT_txt="beside==3\n")
    assert folder() != before


UV = """
[[package]]
name = "mine"
version = "0.1"
source = { virtual = "." }
[[package]]
name = "Some.Lock"
version = "1.0.2"
[[package]]
name = "colorama"
version = "0.4.6"
"""
PROJECT = '[project]\nname = "mine"\ndependencies = ["some-lock>=1 ; python_version > \'3\'"]\n'
OF_POETRY = '[tool.poetry.dependencies]\npython = "^3.11"\nsome-lock = "^1"\n'


@pytest.mark.parametrize(
    ("name", "project", "asked"),
    [
        ("uv.lock", PROJECT, "some-lock>=1 ; python_version > '3'"),
        ("poetry.lock", OF_POETRY, "some-lock"),
    ],
)
def test_a_lock_file_bounds_what_its_project_needs(
    name: str, project: str, asked: str, tmp_path: Path, calls: Path
) -> None:
    write(tmp_path / "project", **{name: UV, "pyproject.toml": project})
    fetched(tmp_path / "project", name)
    assert calls.read_text().rstrip().endswith(asked)
    bounds = calls.with_name("pip.constraints").read_text().splitlines()
    assert bounds == ["some-lock==1.0.2", "colorama==0.4.6"]


def test_a_pylock_names_the_packages_with_their_markers(tmp_path: Path) -> None:
    text = (
        'lock-version = "1.0"\n[[packages]]\nname = "some-lock"\nversion = "1.0.2"\n'
        '[[packages]]\nname = "colorama"\nversion = "0.4.6"\nmarker = "os_name == \'nt\'"\n'
    )
    write(tmp_path, pylock_DOT_toml=text)
    found = projects.read(tmp_path, ["pylock.toml"])
    assert found.pins == ("some-lock==1.0.2", "colorama==0.4.6 ; os_name == 'nt'")


@pytest.mark.parametrize(
    ("files", "entry", "said"),
    [
        ({}, "requirements.txt", "no such file: .*requirements.txt"),
        ({"requirements.txt": "-r gone.txt\n"}, "requirements.txt", "gone.txt: No such file"),
        ({"pyproject.toml": PROJECT}, "pyproject.toml", "pyproject.toml: no lock file: expected"),
        ({"uv.lock": UV}, "uv.lock", "uv.lock needs the pyproject.toml of its project"),
        ({"uv.lock": "", "pyproject.toml": PROJECT}, "uv.lock", "uv.lock does not lock some-lock"),
        ({"uv.lock": "[", "pyproject.toml": PROJECT}, "uv.lock", "uv.lock: not TOML"),
        ({"uv.lock": "[[package]]", "pyproject.toml": PROJECT}, "uv.lock", "uv.lock: .*`name`"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    files: dict[str, str], entry: str, said: str, tmp_path: Path
) -> None:
    write(tmp_path, **files)
    with pytest.raises(UsageError, match=said):
        projects.read(tmp_path, [entry])


@pytest.mark.parametrize(
    "entry", ["redis", "redis==5.0.8", "redis[hiredis]", "a.b>=1", "x @ file:///x.txt"]
)
def test_a_requirement_is_no_file(entry: str) -> None:
    assert not projects.is_file(entry)


def environment(root: Path, version: str = OWN) -> Path:
    """A virtual environment as `python -m venv` leaves one, without an interpreter."""
    packages = root / "lib" / f"python{OWN}" / "site-packages"
    (packages / "some_lock-1.0.2.dist-info").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}.2\n")
    return packages


def test_an_environment_is_imported_from_as_it_is(tmp_path: Path) -> None:
    packages = environment(tmp_path / ".venv")
    (tmp_path / "src").mkdir()
    (packages / "_mine.pth").write_text(f"# of mine\nimport mine\n{tmp_path / 'src'}\n")
    found = own_packages.found(tmp_path, (), ".venv", lambda line: None)
    assert found.folders == [str(packages), str(tmp_path / "src")]
    assert found.versions == ["some_lock==1.0.2"]


def test_an_environment_that_clients_cannot_import_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no virtual environment"):
        projects.environment(tmp_path, ".venv")
    environment(tmp_path / "old", "3.9")
    with pytest.raises(UsageError, match=rf"is of Python 3.9.2, and clients run on {OWN}"):
        projects.environment(tmp_path, "old")
    packages = environment(tmp_path / "editable")
    (packages / "__editable__.mine-1.pth").write_text("import __editable___mine_finder\n")
    with pytest.raises(UsageError, match=r"__editable__.mine-1.pth imports by code: install"):
        projects.environment(tmp_path, "editable")


def test_the_packages_of_a_package_json_are_those_of_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(npm, "missing", lambda: None)
    (tmp_path / "npm").write_text(NPM)
    (tmp_path / "npm").chmod(0o755)
    write(tmp_path / "project", **{"package.json": '{"dependencies": {"a": "1"}}'})
    first = fetched(tmp_path / "project", "package.json")
    assert first.versions == ["npm:a@1.0.0"] and first.modules is not None
    write(tmp_path / "project", **{"package-lock.json": "{}"})
    second = fetched(tmp_path / "project", "package.json")
    assert second.modules != first.modules
    words = (tmp_path / "npm.calls").read_text().splitlines()
    assert [line.split()[0] for line in words] == [
        "install", "package.json", "ci", "package-lock.json", "package.json",
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"package.json lists all packages of npm: leave out"):
        fetched(tmp_path / "project", "package.json", "npm:b@2")
