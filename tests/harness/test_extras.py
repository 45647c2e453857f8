"""An optional package that is missing or broken is named with the command that installs it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.harness.core import extras
from holdfast.harness.core.errors import EnvironmentFailed

ROOT = Path(__file__).resolve().parents[2]
Patch = pytest.MonkeyPatch


def broken(package: str, folder: Path, monkeypatch: Patch) -> None:
    """Puts a package first that is there and cannot be imported."""
    (folder / f"{package}.py").write_text("raise OSError('libffi.so.8: cannot open')\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, package, raising=False)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    said = "needs the package paramiko: pip install 'holdfast[ssh]'"
    assert extras.problem("paramiko") == said
    with pytest.raises(EnvironmentFailed, match=re.escape(f"ssh {said}")):
        extras.load("paramiko", "ssh")


def test_a_broken_package_is_named_with_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    broken("paramiko", tmp_path, monkeypatch)
    said = extras.problem("paramiko")
    assert said is not None
    assert "cannot import the package paramiko (OSError: libffi.so.8: cannot open)" in said
    assert "pip install --force-reinstall 'holdfast[ssh]'" in said


def test_a_package_that_lacks_one_of_its_own_is_broken(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "docker.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "docker", raising=False)
    assert "No module named 'no_such_package'" in str(extras.problem("docker"))


def test_a_package_that_is_there_is_given(monkeypatch: Patch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "json", "none")
    assert extras.problem("json") is None
    assert extras.load("json", "a test").loads("1") == 1


DISTRIBUTIONS = {"yaml": "pyyaml"}
"""Those whose name on the index is another."""


def test_every_optional_package_is_declared_under_its_extra_and_not_at_the_base() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = {re.split(r"[^\w-]", line)[0] for line in project["dependencies"]}
    assert not base & {*extras.EXTRAS, *DISTRIBUTIONS.values()}
    for package, extra in extras.EXTRAS.items():
        declared = project["optional-dependencies"][extra]
        assert DISTRIBUTIONS.get(package, package) in {
            re.split(r"[^\w-]", line)[0] for line in declared
        }
