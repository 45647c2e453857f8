"""The code that runs on nodes: one zip in the run directory, importable through PYTHONPATH."""

from __future__ import annotations

import os
import py_compile
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

from holdfast.harness.recording.full_disk import naming

TRAVELS = ("harness", "workloads", "nemesis", "clusters")
AT_START: tuple[str, ...] = (
    "harness/client/",
    "harness/core/",
    "harness/recording/",
    "harness/runs/",
    "nemesis/agent/",
    "workloads/",
)
"""Folders whose modules the processes of a run import as they start."""
LEVEL = 2
"""Of deflate: a quarter less time than level 6 takes, and a twentieth more bytes."""
FIXED = 1
"""Flag of a .pyc that is not compared with its source (PEP 552)."""


def pack(package: Path, target: Path, own: Path | None = None, *, client: str = "") -> None:
    """Write the zip.

    package   the folder of the installed `holdfast` package
    own       a folder of modules to add
    client    the package of modules with which the run's clients take locks

    An archive of sources alone would be compiled again by each process that starts (six clients,
    an agent and a resource). So modules that all of them import have their
    bytecode beside the source, which another version of Python uses instead.
    """
    at_start = AT_START
    if client.startswith("holdfast."):
        at_start += (f"{client.removeprefix('holdfast.').replace('.', '/')}/",)
    packed = zipfile.ZIP_DEFLATED
    with naming(target), zipfile.ZipFile(target, "w", packed, compresslevel=LEVEL) as archive:
        for path in [package / "__init__.py", *_python_files(package)]:
            name = path.relative_to(package).as_posix()
            archive.write(path, f"holdfast/{name}")
            if name.startswith(at_start) and (bytecode := _bytecode(path)):
                archive.writestr(f"holdfast/{name}c", bytecode)
        if own is not None:
            for path in sorted(own.rglob("*.py")):
                archive.write(path, path.relative_to(own))


def _python_files(package: Path) -> Iterator[Path]:
    for room in TRAVELS:
        for folder, _, names in os.walk(package / room, followlinks=True):
            for name in sorted(names):
                if name.endswith(".py"):
                    yield Path(folder, name)


def _bytecode(source: Path) -> bytes | None:
    """The content of a module's .pyc that counts as that of its source wherever it is unpacked;
    None if there is none and none can be written beside the source, as Python writes them."""
    text, stat = source.read_bytes(), source.stat()
    cached = Path(cache_from_source(str(source)))
    stamp = b"".join(part.to_bytes(4, "little") for part in (0, int(stat.st_mtime), len(text)))
    try:
        content = cached.read_bytes() if cached.exists() else b""
        if not content.startswith(MAGIC_NUMBER + stamp) and not sys.dont_write_bytecode:
            mode = py_compile.PycInvalidationMode.TIMESTAMP
            py_compile.compile(str(source), doraise=True, invalidation_mode=mode)
            content = cached.read_bytes()
    except (OSError, py_compile.PyCompileError):
        return None
    if not content.startswith(MAGIC_NUMBER + stamp):
        return None
    # Its time would be compared with that in the zip, which has none of a time zone.
    fixed = MAGIC_NUMBER + FIXED.to_bytes(4, "little") + source_hash(text)
    return fixed + content[len(fixed) :]
