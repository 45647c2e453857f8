"""Releases of a library: which there are, and between which a finding begins and ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.clusters.programs import debian, npm

LISTED_WITHIN_S = 60
LISTED = re.compile(r"^Available versions: (.+)$", re.M)
STABLE = re.compile(r"\d+(\.\d+)*")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")
Bad = bool | None
"""Whether a release shows a finding; None: it cannot be used with the adapter."""
T = TypeVar("T")


def published(package: str) -> list[str]:
    """All releases of a package, newest first, as pip or npm lists them; [] if unknown."""
    if package.startswith(debian.PREFIX):
        return []
    if package.startswith(npm.PREFIX):
        name = package.removeprefix(npm.PREFIX)
        return of_npm(_output(["npm", "view", name, "versions", "--json"]))
    argv = [sys.executable, "-P", "-m", "pip", "index", "versions"]
    return of_pip(_output([*argv, "--disable-pip-version-check", package]))


def of_pip(text: str) -> list[str]:
    """The releases in the output of `pip index versions`, newest first."""
    listed = LISTED.search(text)
    names = [name.strip() for name in listed[1].split(",")] if listed else []
    return [name for name in names if VERSION.fullmatch(name)]


def of_npm(text: str) -> list[str]:
    """The releases in the output of `npm view PACKAGE versions --json`, newest first."""
    try:
        listed = json.loads(text)
    except ValueError:
        return []
    names = [listed] if isinstance(listed, str) else listed
    if not isinstance(names, list):
        return []
    return [name for name in reversed(names) if isinstance(name, str) and VERSION.fullmatch(name)]


def last(listed: Sequence[str], known: str, wanted: str, count: int) -> list[str]:
    """The releases of a hunt, newest first.

    known    the release that the adapter was written for
    wanted   the release under test, "" for the newest: the newest stable one, or `known` if that is
             a newer pre-release
    count    how many at most; `wanted` is among them
    """
    first = wanted or _newest(listed, known)
    if first not in listed:
        return [first]
    kept = [name for name in listed if STABLE.fullmatch(name) or name in (first, known)]
    at = kept.index(first)
    # The releases around one that was asked for, else those before the newest.
    begin = max(0, min(at - count // 2, len(kept) - count)) if wanted else at
    return kept[begin : begin + count]


def _newest(listed: Sequence[str], known: str) -> str:
    stable = next((name for name in listed if STABLE.fullmatch(name)), known)
    if known in listed and stable in listed and listed.index(known) < listed.index(stable):
        return known
    return stable


def _output(argv: Sequence[str]) -> str:
    """Standard output of a package manager; "" if it cannot be run or does not end in time."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=LISTED_WITHIN_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """First and last bad release among those tried.

    first, last      the oldest and newest bad release that is known
    before, after    the clean release next to it, "" if none was seen
    oldest, newest   whether `first` is the oldest and `last` the newest release of the hunt
    tried            release -> whether it is bad, None if it cannot be used
    """

    first: str
    last: str
    before: str = ""
    after: str = ""
    oldest: bool = False
    newest: bool = False
    tried: dict[str, Bad]

    @property
    def exact(self) -> bool:
        """Whether both ends are known within the releases of the hunt."""
        return bool(self.before or self.oldest) and bool(self.after or self.newest)


def bisect(releases: Sequence[str], seen: str) -> Generator[str, Bad, Span]:
    """Yields releases to try, is sent whether they are bad, and returns the span.

    releases   newest first, with `seen`, which is bad. One first and one last bad release are
               assumed: a release between two bad ones is not tried. One that cannot be used is left
               out.
    """
    tried: dict[str, Bad] = {seen: True}
    at = releases.index(seen)
    last_bad, after = yield from _edge(releases[:at][::-1], seen, tried)
    first_bad, before = yield from _edge(releases[at + 1 :], seen, tried)
    return Span(
        first=first_bad,
        last=last_bad,
        before=before,
        after=after,
        oldest=not before and first_bad == _usable(releases[::-1], tried),
        newest=not after and last_bad == _usable(releases, tried),
        tried=tried,
    )


def _usable(releases: Sequence[str], tried: dict[str, Bad]) -> str:
    """The first release that is not known to be unusable."""
    return next(name for name in releases if tried.get(name, True) is not None)


def _edge(
    outward: Sequence[str], seen: str, tried: dict[str, Bad]
) -> Generator[str, Bad, tuple[str, str]]:
    """The last bad release of a direction away from `seen`, and the clean one behind it or ""."""
    bad, clean, left = seen, "", list(outward)
    first = True
    while left:
        # The farthest first: mostly it is bad as well, and one run is enough.
        middle = len(left) - 1 if first else (len(left) - 1) // 2
        name = left[middle]
        tried[name] = yield name
        if tried[name] is None:
            left.pop(middle)
            continue
        first = False
        if tried[name]:
            bad, left = name, left[middle + 1 :]
        else:
            clean, left = name, left[:middle]
    return bad, clean
