"""Optional compiled pass over mutex histories, built with `make kernel`.

It reports that a history has no contradiction, or that the exact pass has to check it; so it never
changes a verdict, only the time of most of them. It is loaded from the user's cache, where it was
built, under a name derived from its source; nothing is compiled implicitly.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from holdfast.checkers.linearizability.exact.pairing import LockColumns
from holdfast.harness.core.errors import EnvironmentFailed

SOURCE = Path(__file__).with_name("kernel.c")
FLAGS = ("-O2", "-shared", "-fPIC", "-std=c11", "-Wall", "-Werror")
LEASES, TOKENS = 1, 2
WIDE, NARROW = np.dtype(np.int64), np.dtype(np.bool_)


def library() -> Path:
    """Path of the compiled pass, if it has been built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    return cache / "holdfast" / f"kernel-{digest}.so"


def build() -> Path:
    """Compile it. EnvironmentFailed if there is no compiler, or it fails."""
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise EnvironmentFailed("no C compiler: install gcc, or name one in CC; numpy does without")
    target = library()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder, "kernel.so")
        argv = [compiler, *FLAGS, "-o", str(made), str(SOURCE)]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise EnvironmentFailed(f"{compiler} failed: {done.stderr.strip()[-500:]}")
        made.replace(target)
    _loaded.cache_clear()
    return target


@functools.cache
def _loaded() -> ctypes._NamedFuncPointer | None:
    path = library()
    try:
        mine = path.stat().st_uid in (os.geteuid(), 0)
    except OSError:
        return None
    if not mine:
        return None
    clean = ctypes.CDLL(str(path)).holdfast_clean
    clean.restype = ctypes.c_int
    clean.argtypes = [*[ctypes.c_void_p] * 7, *[ctypes.c_int64] * 3, ctypes.c_int]
    return clean


def clean(columns: LockColumns, *, leases: bool, tokens: bool) -> bool:
    """True: certainly no contradiction. False: the exact pass has to decide."""
    function = _loaded()
    if function is None:
        return False
    columns_of = [
        *(np.ascontiguousarray(one, NARROW) for one in (columns.release, columns.ok)),
        *(np.ascontiguousarray(one, WIDE) for one in (columns.inv, columns.ret)),
        *(np.ascontiguousarray(one, WIDE) for one in (columns.attempt, columns.lock)),
        np.ascontiguousarray(columns.token, WIDE),
    ]
    rule = LEASES * leases | TOKENS * tokens
    sizes = (len(columns), columns.attempts, columns.locks)
    return bool(function(*(one.ctypes.data for one in columns_of), *sizes, rule) == 1)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except EnvironmentFailed as error:
        sys.exit(str(error))
