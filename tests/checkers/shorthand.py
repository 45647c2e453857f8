"""A small language for histories short enough to read: `history("0a? 0a+7 1a? 1n~ 0r? 0r+")`.

Words stand for moments, one second apart unless `@4.5` says when (seconds). A word is

    0a?      process 0 calls: acquire. Its next `a` word is the answer
    0a+7     + ok (with token 7), - fail, ~ unknown, ! not the owner
    1.2r?    the attempt is process 1's second; else it is its latest
    0a?:x    the lock is x, or a path like /x/y; else it is db
    0r+=1    the release leaves its owner one entry; without "=" nothing is said of that
    0n+/3    a lease of 3 s is asked for or granted; else the history's
    2w?=4    a write that builds on version 4; `2w+=5`: answered with version 5
    2S+=5    the resource accepts 2's last write and makes version 5; `2S-` refuses it; D: a read

    calls    a acquire  t try  p probe  n renew  r release  h heartbeat  f force-unlock
             w write  d read  q who holds (`0q+7=2`: token 7, renewed twice; `0q+`: nobody)
             k how many wait before me (`0k+=1`)  l how many wait (`0l+=1`)
             c is my hold in force (`0c-`: it is not)
    moments  L lost  C closed (all that the process holds)  Q still in the queue  S D served
             V the request was read

A call without an answer never returned. The resource numbers versions and keeps the highest token
by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.harness.core.case import MERGED_DTYPE, Case, History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, Terms, attempt_id
from holdfast.harness.core.verdict import Promises

CALLS = {
    "a": Op.ACQUIRE, "t": Op.TRY, "p": Op.PROBE, "n": Op.RENEW, "r": Op.RELEASE,
    "h": Op.HEARTBEAT, "f": Op.FORCE_UNLOCK, "w": Op.WRITE, "d": Op.READ,
    "q": Op.HOLDER, "k": Op.PLACE, "c": Op.CHECK, "l": Op.LENGTH,
}  # fmt: skip
MOMENTS = {
    "L": Op.LOST, "C": Op.CLOSED, "Q": Op.WAITING, "S": Op.SERVED_WRITE, "D": Op.SERVED_READ,
    "V": Op.ARRIVED,
}  # fmt: skip
EDGES = {"+": Status.OK, "-": Status.FAIL, "~": Status.INFO, "!": Status.NOT_OWNER}
ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE)
WORD = re.compile(
    r"(?P<process>\d+)(\.(?P<n>\d+))?(?P<what>[a-zA-Z])(?P<edge>[?+~!-])?(?P<token>\d+)?"
    r"(:(?P<lock>[\w#]+|(/[a-z]+)+|/(?![\d.])))?(/(?P<lease>[\d.]+))?"
    r"(=(?P<version>-?\d+))?(@(?P<at>[\d.]+))?"
)
LEASE = 10.0

LEASE_LOCK = Promises(
    purpose="correctness",
    bound="lease",
    renew_proves=True,
    release_proves=True,
    release_once=True,
    slip_ns=0,
    drift_ppm=0,
    tokens="ordered",
    tokens_unique=True,
    order="fifo",
    notice_ns=3 * SECOND,
    recovery_ns=5 * SECOND,
    keeps={"token-order": ("any",)},
    sheet={},
)
"""A lease lock that promises everything, by clocks without error."""


def history(text: str, *, lease: float = LEASE, problems: Iterable[str] = ()) -> History:
    """The history that the words tell."""
    return _Reader(lease).read(text, tuple(problems))


def case(told: History | str, *, promises: Mapping[str, Any] | None = None, **changes: Any) -> Case:
    """A case about a history. `promises` and `changes` alter LEASE_LOCK and the case itself."""
    told = history(told) if isinstance(told, str) else told
    rows = told.rows
    end_ns = int(max(rows["t_inv"].max(), rows["t_ret"].max())) if len(rows) else 0
    nodes = {int(process): f"c{process}" for process in np.unique(rows["process"])}
    fields: dict[str, Any] = {
        "history": told,
        "promises": replace(LEASE_LOCK, **(promises or {})),
        "windows": (),
        "asked": (),
        "start_ns": 0,
        "stop_ns": end_ns,
        "end_ns": end_ns,
        "lease_ns": int(LEASE * SECOND),
        "nodes": nodes,
        "options": {"resource": "fenced"},
    }
    return Case(**{**fields, **changes})


def on(told: History, *terms: Terms) -> History:
    """The same, with acquires on terms: the first for all of process 0, and so on."""
    for row in told.rows:
        if row["f"] in ASKS and row["process"] < len(terms):
            row["mode"] = terms[row["process"]].mode
            row["op"] = terms[row["process"]].packed()
    return told


def table(rows: Iterable[Mapping[str, int]]) -> np.ndarray[Any, Any]:
    """Merged rows of columns by name, in order of t_inv; what is not named is 0."""
    listed = sorted(rows, key=lambda row: row["t_inv"])
    merged = np.zeros(len(listed), MERGED_DTYPE)
    for column in MERGED_DTYPE.names or ():
        merged[column] = [row.get(column, 0) for row in listed]
    return merged


class _Reader:
    def __init__(self, lease: float) -> None:
        self.lease = lease
        self.now = -1.0
        self.rows: list[dict[str, int]] = []
        self.strings = [""]
        self.writers: dict[str, int] = {}
        self.open: dict[tuple[int, str], dict[str, int]] = {}
        self.attempts: dict[int, int] = {}
        self.latest: dict[tuple[int, int], dict[str, int]] = {}
        self.highest: dict[int, int] = {}
        self.version: dict[int, int] = {}

    def read(self, text: str, problems: tuple[str, ...]) -> History:
        for word in text.split():
            found = WORD.fullmatch(word)
            assert found, f"{word!r} is no word of a history"
            self._word(found)
        return History(
            rows=table(self.rows),
            strings=self.strings,
            writers=tuple(self.writers),
            problems=problems,
        )

    def _word(self, found: re.Match[str]) -> None:
        self.now = float(found["at"]) if found["at"] else self.now + 1
        what, edge = found["what"], found["edge"]
        if what in MOMENTS:
            self._moment(MOMENTS[what], found)
        elif edge == "?":
            self._call(CALLS[what], found)
        else:
            self._answer(CALLS[what], EDGES[edge], found)

    def _call(self, op: Op, found: re.Match[str]) -> None:
        process, lease = int(found["process"]), self._lease(found, self.lease)
        if op in ASKS:
            self.attempts[process] = self.attempts.get(process, 0) + 1
        row = self._row(op, found, f"c{process}", Status.INVOKED)
        row["t_ret"] = 0
        if op in ASKS or op is Op.RENEW:
            row["arg"] = lease
        if op is Op.ACQUIRE or op is Op.PROBE:
            row["aux"] = -1
        if op is Op.WRITE:
            row["arg"] = int(found["version"] or -1)
        self.open[process, found["what"]] = row

    def _answer(self, op: Op, status: Status, found: re.Match[str]) -> None:
        row = self.open.pop((int(found["process"]), found["what"]))
        row["t_ret"], row["status"] = self._now_ns(), status
        if found["token"]:
            row["token"] = int(found["token"])
        if op in (*ASKS, Op.RENEW, Op.HEARTBEAT) and status is Status.OK:
            row["res"] = self._lease(found, row.get("arg", 0) / SECOND or self.lease)
        if op is Op.HOLDER and not found["token"]:
            row["token"] = NO_TOKEN
        if op in (Op.WRITE, Op.READ, Op.HOLDER, Op.PLACE, Op.LENGTH):
            row["res"] = int(found["version"] or -1)
        if op is Op.RELEASE and found["version"]:
            row["res"] = int(found["version"]) + 1

    def _moment(self, op: Op, found: re.Match[str]) -> None:
        if op not in (Op.SERVED_WRITE, Op.SERVED_READ):
            row = self._row(op, found, f"c{found['process']}", Status.OK)
            if op is Op.CLOSED and not found["n"]:
                row["attempt"] = row["key"] = 0
            if op is Op.WAITING:
                row["res"] = -1
            return
        kind = Op.WRITE if op is Op.SERVED_WRITE else Op.READ
        asked = self.latest[int(found["process"]), kind]
        row = self._row(op, found, "resource", EDGES[found["edge"] or "+"])
        key, token = asked["key"], int(found["token"] or asked["token"])
        row["key"], row["token"], row["attempt"] = key, token, asked["attempt"]
        row["op"] = asked["process"] << 32 | asked["row"]
        highest = self.highest.get(key, NO_TOKEN)
        if row["status"] == Status.OK:
            step = 1 if op is Op.SERVED_WRITE else 0
            self.version[key] = int(found["version"] or self.version.get(key, 0) + step)
            self.highest[key] = max(highest, token)
        row["res"] = self.version.get(key, 0)
        row["arg"] = asked["arg"] if op is Op.SERVED_WRITE else highest
        row["aux"] = highest if op is Op.SERVED_WRITE else 0

    def _row(self, op: Op, found: re.Match[str], writer: str, status: Status) -> dict[str, int]:
        process = int(found["process"])
        n = int(found["n"] or self.attempts.get(process, 0))
        number = self.writers.setdefault(writer, len(self.writers))
        attempt = attempt_id(process, n) if n else 0
        row = {
            "f": op,
            "process": process,
            "attempt": attempt,
            "key": self._string(found["lock"] or "db"),
            "token": int(found["token"]) if found["token"] else self._token(attempt, op),
            "t_inv": self._now_ns(),
            "t_ret": self._now_ns(),
            "status": status,
            "writer": number,
            "row": sum(row["writer"] == number for row in self.rows),
        }
        self.rows.append(row)
        self.latest[process, op] = row
        return row

    def _token(self, attempt: int, op: Op) -> int:
        """As granted, for what follows from a grant."""
        granted = (r["token"] for r in self.rows if r["attempt"] == attempt and r["f"] in ASKS)
        return NO_TOKEN if op in ASKS else next(granted, NO_TOKEN)

    def _lease(self, found: re.Match[str], otherwise: float) -> int:
        return round(float(found["lease"] or otherwise) * SECOND)

    def _now_ns(self) -> int:
        return round(self.now * SECOND)

    def _string(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)
