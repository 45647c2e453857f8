"""The compiled pass over mutex histories, for those who build it: `make kernel`.

It says that a history is free of contradictions, or that the exact pass has to look at it; so it
never changes a verdict, only how soon most of them come. It is looked for where it was built, in
the user's cache, under a name that its source determines; nothing is compiled by itself.
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
    """Where the compiled pass lies if it has been built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    return cache / "holdfast" / f"kernel-{digest}.so"


def build() -> Path:
    """Compile it. EnvironmentFailed where there is no compiler, or it cannot."""
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
    """True: surely no contradiction. False: the exact pass has to say, or nothing was built."""
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
