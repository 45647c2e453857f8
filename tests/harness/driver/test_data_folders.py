"""Copies of data folders: blocks and holes, owners and times, links that lead elsewhere."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from holdfast.harness.driver.data_folders import BLOCK, copy, empty, files_in, free_zeros

HOLE, ZEROS, DATA = "hole", "zeros", "data"


def written(path: Path, *parts: str, tail: int = 0) -> None:
    """A file of whole blocks of these kinds, and some bytes of data."""
    with path.open("wb") as file:
        for part in parts:
            if part == HOLE:
                file.seek(BLOCK, os.SEEK_CUR)
            else:
                file.write((b"\0" if part == ZEROS else b"d") * BLOCK)
        file.write(b"t" * tail)
        file.truncate(BLOCK * len(parts) + tail)


@pytest.mark.parametrize(
    ("parts", "tail", "not_zero"),
    [
        ((), 0, 0),
        ((), 1, 1),
        ((DATA,), 0, BLOCK),
        ((HOLE,), 0, 0),
        ((ZEROS,), 0, 0),
        ((HOLE, DATA, HOLE), 0, BLOCK),
        ((DATA, ZEROS, DATA, HOLE), 0, 2 * BLOCK),
        ((ZEROS, HOLE), 7, 7),
        ((HOLE, HOLE, DATA), 9, BLOCK + 9),
    ],
)
def test_a_copy_has_the_same_bytes_and_counts_blocks_that_are_not_zero(
    tmp_path: Path, parts: tuple[str, ...], tail: int, not_zero: int
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    written(source / "log", *parts, tail=tail)
    assert copy(source, target) == not_zero
    assert (target / "log").read_bytes() == (source / "log").read_bytes()
    assert files_in(target) == files_in(source)
    assert (target / "log").stat().st_blocks * 512 <= not_zero + 2 * BLOCK * bool(not_zero)


def test_the_bytes_of_all_files_are_counted_and_empty_folders_are_kept(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for n, name in enumerate(["a", "b/c", "b/d/e"], 1):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"x" * n)
    (source / "none").mkdir(mode=0o700)
    assert copy(source, target) == 6
    assert sorted(str(path) for path in files_in(target)) == ["a", "b/c", "b/d/e"]
    assert (target / "none").is_dir() and (target / "none").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        copy(source, target)


def test_a_copy_has_times_and_as_root_owners(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "f").write_bytes(b"x")
    (source / "l").symlink_to("nowhere")
    if os.geteuid() == 0:
        os.chown(source / "f", 65534, 65533)
        os.chown(source / "l", 65534, 65533, follow_symlinks=False)
    os.utime(source / "f", ns=(1_000_000_007, 2_000_000_009))
    copy(source, target)
    assert (target / "f").stat().st_mtime_ns == 2_000_000_009
    for name in ("f", "l"):
        one, other = (source / name).lstat(), (target / name).lstat()
        assert (one.st_uid, one.st_gid) == (other.st_uid, other.st_gid)
    assert (target / "l").readlink() == Path("nowhere")


def test_a_link_is_neither_a_file_of_the_folder_nor_followed_when_it_is_emptied(
    tmp_path: Path,
) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    (folder / "deep" / "er").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_text("mine")
    (folder / "file").write_text("gone")
    (folder / "deep" / "er" / "file").write_text("gone")
    (folder / "link").symlink_to(outside)
    (folder / "deep" / "link").symlink_to(outside / "kept")
    assert sorted(str(path) for path in files_in(folder)) == ["deep/er/file", "file"]
    empty(folder)
    assert list(folder.iterdir()) == []
    assert (outside / "kept").read_text() == "mine"


def test_what_changed_since_is_seen_by_its_size_or_its_time(tmp_path: Path) -> None:
    rng = random.Random(3)
    for n in range(6):
        (tmp_path / f"f{n}").write_bytes(rng.randbytes(n))
        os.utime(tmp_path / f"f{n}", ns=(5, 10**18 + n))
    before = files_in(tmp_path)
    assert {str(path): size for path, (size, _) in before.items()} == {f"f{n}": n for n in range(6)}
    (tmp_path / "f3").write_bytes(b"...")
    os.utime(tmp_path / "f4", ns=(5, 10**18 + 5))
    (tmp_path / "f5").unlink()
    after = files_in(tmp_path)
    differing = {str(path) for path in {**before, **after} if before.get(path) != after.get(path)}
    assert differing == {"f3", "f4", "f5"}


def test_a_large_file_loses_its_zeros_and_nothing_else(tmp_path: Path) -> None:
    log, data = tmp_path / "wal" / "log", tmp_path / "data"
    log.parent.mkdir()
    written(log, DATA, *[ZEROS] * 64, DATA, tail=5)
    written(data, *[DATA] * 32)
    os.utime(log, ns=(5, 7))
    log.chmod(0o640)
    before, inode = log.read_bytes(), data.stat().st_ino
    allocated = log.stat().st_blocks * 512
    freed = free_zeros(tmp_path)
    assert log.read_bytes() == before
    assert freed == allocated - log.stat().st_blocks * 512 >= 60 * BLOCK
    assert (log.stat().st_mode & 0o777, log.stat().st_mtime_ns) == (0o640, 7)
    assert data.stat().st_ino == inode
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["data", "log", "wal"]
    assert free_zeros(tmp_path) == 0


def test_small_files_links_and_what_is_not_there_are_left(tmp_path: Path) -> None:
    far = tmp_path / "far"
    written(far, *[ZEROS] * 32)
    folder = tmp_path / "data"
    folder.mkdir()
    written(folder / "small", *[ZEROS] * 8)
    (folder / "link").symlink_to(far)
    assert free_zeros(folder) == 0
    assert (folder / "link").is_symlink() and far.stat().st_blocks > 0
    assert free_zeros(tmp_path / "none") == 0
