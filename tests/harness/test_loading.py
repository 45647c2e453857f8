"""Objects loaded by name, files of users, and what those import."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.harness.core import loading
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import installed, load, load_file, neighbours, site_folders

MODULE = "holdfast_test_of_a_user"


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    """Modules that a test loads are not left behind."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(folder: Path, **files: str) -> Path:
    """Files by name, "_in_" for a folder; the path of mine.py."""
    for name, text in files.items():
        path = folder / f"{name.replace('_in_', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "mine.py"


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as told:
        load_file(MODULE, path)
    assert MODULE not in sys.modules, "a module that failed is not left half made"
    return str(told.value)


def test_an_object_is_loaded_by_module_and_attribute() -> None:
    assert load("holdfast.harness.core.errors:UsageError") is UsageError
    with pytest.raises(UsageError, match=r"cannot import holdfast.no_such: No module named"):
        load("holdfast.no_such:x")


def test_a_missing_attribute_is_told_with_the_names_that_there_are(tmp_path: Path) -> None:
    names = [f"Name{n}" for n in range(10)]
    text = "import json\n_hidden = 3\n" + "".join(f"class {name}: ...\n" for name in names)
    load_file(MODULE, written(tmp_path, mine=text))
    with pytest.raises(UsageError) as told:
        load(f"{MODULE}:Nam3")
    some = ", ".join(names[:8])
    assert str(told.value) == f"mine.py has no 'Nam3'; did you mean 'Name3'? (it defines {some})"
    load_file(MODULE, written(tmp_path, mine="x = 1\n"))
    with pytest.raises(UsageError) as told:
        load(f"{MODULE}:Mine")
    assert str(told.value) == "mine.py has no 'Mine'"


def test_a_file_is_executed_once_per_content_of_it_and_of_its_neighbours(tmp_path: Path) -> None:
    path = written(
        tmp_path, mine="import helper_of_mine as h\nseen = [h.N]\n", helper_of_mine="N = 1\n"
    )
    load_file(MODULE, path)
    load(f"{MODULE}:seen").append(2)
    load_file(MODULE, path)
    assert load(f"{MODULE}:seen") == [1, 2], "not executed again"
    load_file(MODULE, path, again=True)
    assert load(f"{MODULE}:seen") == [1]
    written(tmp_path, helper_of_mine="N = 5\n")
    load_file(MODULE, path)
    assert load(f"{MODULE}:seen") == [5], "a neighbour changed within the same second"
    assert str(tmp_path) not in sys.path and not (tmp_path / "__pycache__").exists()


def test_a_neighbour_of_the_same_name_in_another_folder_is_another_module(tmp_path: Path) -> None:
    for n in (1, 2):
        path = written(
            tmp_path / str(n), mine="import helper_of_mine as h\n", helper_of_mine=f"N = {n}\n"
        )
        load_file(f"{MODULE}{n}", path)
        assert n == load(f"{MODULE}{n}:h").N


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = x / 0\n", ", line 2: execution failed: ZeroDivisionError: division by zero"),
        ("x = (\n", ": execution failed: SyntaxError: "),
        ("import helper_of_mine\n", ", line 1: execution failed: KeyError: 'a'"),
        ("import no_such_package\n", "it is not installed beside Holdfast, in "),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, mine=text, helper_of_mine="\n\n{}['a']\n")
    told = refused(path)
    assert told.startswith(str(path)) and said in told
    assert ("install" in told) == ("no_such" in text)
    assert str(tmp_path) not in sys.path


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert refused(tmp_path / "absent.py") == f"{tmp_path / 'absent.py'}: no such file"


def test_neighbours_are_all_that_a_file_imports_from_its_folder(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        mine="import a.b, json\nfrom pack.part import x\nfrom . import near\nif 1:\n import late\n",
        a="import mine\nimport pack\nfrom deep import z\n",
        late="",
        near="",
        unused="",
        json="",
        deep="import a\n",
        pack_in___init__="",
        pack_in_part="import of_part\n",
        pack_in_sub_in_more="",
        of_part="x = (\n",
        plainfolder_in_x="",
    )
    found = neighbours(path)
    assert set(found) == {
        "a.py", "late.py", "deep.py", "pack/__init__.py", "pack/part.py", "pack/sub/more.py",
        "of_part.py",
    }  # fmt: skip
    assert all(file == tmp_path / below for below, file in found.items())


def test_the_number_of_neighbours_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MOST_FILES", 3)
    chain = {f"m{n}": f"import m{n + 1}\n" for n in range(9)}
    assert list(neighbours(written(tmp_path, mine="import m0\n", **chain))) == [
        "m0.py",
        "m1.py",
        "m2.py",
    ]


def test_installed_packages_are_the_imports_that_are_neither_near_nor_standard(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        mine="import redis.client, os, near\nfrom holdfast import Run\nfrom kazoo import x\n",
        near="import redis, etcd3\nfrom . import other\n",
    )
    assert installed(path) == ["redis", "kazoo", "etcd3"]
    assert installed(tmp_path / "absent.py") == []


def test_site_folders_come_after_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard = Path(sysconfig.get_path("stdlib"))
    dynload = str(standard / "lib-dynload")
    last = str(tmp_path)
    for path, found in (
        (["/first", str(standard), dynload, last, "/absent"], [last]),
        ([str(standard), last], [last]),
        ([last], [last]),
    ):
        monkeypatch.setattr(sys, "path", path)
        assert site_folders() == found
