"""The bans at run time: whoever inside a simulated run asks the world outside is named.

The call itself goes through, so that nothing is different but the note. What is imported by name
(`from time import time`) and types made in C (`datetime.now`) pass unseen; a test reads the source
for those.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "clock_gettime")
CHANCE = ("random", "randrange", "randint", "choice", "choices", "sample", "shuffle", "uniform")

BANNED: dict[str, tuple[str, ...]] = {
    "time": (*CLOCKS, *(f"{name}_ns" for name in CLOCKS), "sleep"),
    "random": (*CHANCE, "getrandbits", "gauss", "seed"),
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits"),
    "os": ("urandom", "getpid", "open"),
    "builtins": ("open",),
    "threading": ("Thread.start",),
    "socket": ("socket.__init__",),
    "subprocess": ("Popen.__init__",),
}
"""module -> what nobody inside may call: clocks, chance, threads, sockets, files, processes"""

_STANDARD = sysconfig.get_path("stdlib")


class ForbiddenCall(RuntimeError):
    """Code inside the simulator called a clock, randomness, a thread, a socket or a file."""


@contextmanager
def watched(active: bool, *, refuse: bool = False) -> Iterator[dict[str, None]]:
    """While the body runs, each breach is noted once: "time.time() by nodes/x.py line 7".

    refuse   it raises ForbiddenCall instead of doing what was called
    """
    breaches: dict[str, None] = {}
    replaced: list[tuple[object, str, object]] = []
    try:
        for module, names in BANNED.items() if active else ():
            for dotted in names:
                place, name = _find(module, dotted)
                if hasattr(place, name):
                    real = getattr(place, name)
                    replaced.append((place, name, real))
                    setattr(place, name, _noting(f"{module}.{dotted}", real, breaches, refuse))
        yield breaches
    finally:
        for place, name, real in replaced:
            setattr(place, name, real)


def _find(module: str, dotted: str) -> tuple[object, str]:
    """Where a name is kept. A module that nobody has imported is used by nobody."""
    *within, name = dotted.split(".")
    place: object = sys.modules.get(module)
    for part in within:
        place = getattr(place, part, None)
    return place, name


def _noting(
    what: str, real: Callable[..., object], breaches: dict[str, None], refuse: bool
) -> Callable[..., object]:
    # A simulated world has one thread; what others of the process do is none of its business.
    inside = threading.get_ident()

    def called(*args: object, **given: object) -> object:
        caller = _caller() if threading.get_ident() == inside else ""
        if caller:
            breaches[f"{what}() by {caller}"] = None
            if refuse:
                raise ForbiddenCall(f"{what}() by {caller}")
        return real(*args, **given)

    return called


def _caller() -> str:
    """The nearest caller outside the standard library; "" where that is an import."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" in file:
            return ""
        if not file.startswith((_STANDARD, "<")):
            place = os.path.join(*file.split(os.sep)[-2:])
            return f"{place} line {frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
