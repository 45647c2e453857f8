"""Accepts or refuses the certificates of a run's verdicts, by the recorded rows alone.

A certificate is rebuilt from its rule and the rows that it names: what each has to be, the
conditions between them, the numbers on both sides of every inequality. It is accepted if all of
that holds and the certificate says exactly this, byte for byte. Nothing of the checkers is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.harness.runs import files
from holdfast.harness.verification.clocks import Clocks
from holdfast.harness.verification.derived import INF, Kill, Run
from holdfast.harness.verification.recorded import ASKS, Damaged, Rows, of_directory
from holdfast.harness.verification.rules import (
    OPS,
    ROW_FIELDS,
    RULES,
    STATUSES,
    Rule,
    assumed,
    each_of,
    facts_of,
    valued,
)

HOLDS = {"<": int.__lt__, "<=": int.__le__, "==": int.__eq__}
EXCLUSIVE, SHARED, PERMITS = range(3)


class Refused(Exception):
    """Why a certificate is not accepted."""


class Outcome(NamedTuple):
    """How many certificates were accepted, and a line for each that was refused.

    bare   findings without a certificate: there is no rule for their kind
    why    why nothing was verified, "" where it was
    """

    accepted: int
    refused: Sequence[str]
    bare: int = 0
    why: str = ""


class Row:
    """One recorded row, its columns as attributes; `at` is where it stands in the lists."""

    def __init__(self, rows: Rows, at: int) -> None:
        self._rows, self.at = rows, at

    def __getattr__(self, name: str) -> int:
        return int(getattr(self._rows, name)[self.at])

    @property
    def text(self) -> str:
        """The name of its lock or resource."""
        return self._rows.strings[self.key]


class Verifier:
    """The certificates of one run, against its rows."""

    def __init__(self, run: Run) -> None:
        self.run, self.rows = run, run.rows
        promises = run.promises
        self.names: dict[str, Any] = {
            "slack": run.slack_ns,
            "error": run.error_ns,
            "bound": run.bound,
            "shortest": run.shortest,
            **{name: promises[name] for name in ("slip_ns", "delay_ns", "order")},
            "reach": lambda a: run.reach(a.at),
            "end": lambda a: run.end(a.at),
            "knows": lambda a, row: row.at == run.known(a.at),
            "proves": self._proves,
            "conflict": self._conflict,
            "apart": self._apart,
            "logged": self._logged,
            "in_token_order": lambda a: not self._disorder(a.key),
            "in_turn": self._in_turn,
            "disjoint": lambda a: self._disjoint(a.key),
            "promised": self._promised,
        }

    # One finding.

    def finding(self, finding: Mapping[str, Any]) -> None:
        """Refused, with the reason, unless its certificate proves the finding."""
        certificate = finding.get("certificate")
        if not isinstance(certificate, dict):
            raise Refused("it has no certificate")
        rule = RULES.get(str(certificate.get("rule")))
        if rule is None or finding.get("kind") not in rule.kinds:
            raise Refused(f"there is no rule {certificate.get('rule')!r} for such findings")
        roles = self._roles(rule, certificate.get("rows"))
        if roles[rule.lock].text != finding.get("lock"):
            raise Refused("it names another lock than its rows do")
        names = {**self.names, **roles}
        for text in rule.where:
            for each in each_of(text, roles):
                if not valued(each, names):
                    raise Refused(f"it does not hold that {each}")
        for name, text in rule.values.items():
            for own, each in zip(each_of(name, roles), each_of(text, roles), strict=True):
                names[own] = int(valued(each, names))
        facts = facts_of(rule, roles, names)
        for left, sign, right, a, b in facts:
            if not HOLDS[sign](a, b):
                raise Refused(f"{left} {sign} {right} is false: {a} and {b}")
        self._assumed(rule)
        whole = {
            "rule": certificate["rule"],
            "rows": {name: self._shown(row) for name, row in roles.items()},
            "assumes": list(assumed(rule, roles)),
            "facts": facts,
        }
        if _text(whole) != _text(certificate):
            raise Refused("it says something else than the recorded rows")

    def _roles(self, rule: Rule, told: Any) -> dict[str, Row]:
        """The rows that the certificate names, each of the kind that its role has to be."""
        if not isinstance(told, dict):
            raise Refused("it names no rows")
        roles = {}
        for name, each in told.items():
            kinds = rule.roles.get(name) or rule.roles.get(name.rstrip("0123456789") + "*")
            if kinds is None:
                raise Refused(f"{name} has no part in its rule")
            try:
                row = Row(self.rows, self.rows.place(str(each["writer"]), int(each["row"])))
            except (KeyError, TypeError, ValueError, OverflowError):
                raise Refused(f"its {name} is no row of the run") from None
            ops, statuses = (of.split("|") for of in kinds)
            if row.f not in map(OPS.get, ops) or row.status not in map(STATUSES.get, statuses):
                raise Refused(f"its {name} is no {kinds[0]} that was answered {kinds[1]}")
            roles[name] = row
        if missing := [
            n for n in rule.roles if n not in roles and n.replace("*", "1") not in roles
        ]:
            raise Refused(f"it names no {missing[0]}")
        return roles

    def _shown(self, row: Row) -> dict[str, Any]:
        writer, number = self.rows.named(row.at)
        return {
            "writer": writer,
            "row": number,
            **{name: getattr(row, name) for name in ROW_FIELDS},
        }

    def _promised(self, prop: str) -> bool:
        """Whether a property is promised under all kinds of fault of the run."""
        kept = self.run.promises["keeps"].get(prop)
        return kept is not None and ("any" in kept or self.run.kinds <= set(kept))

    def _assumed(self, rule: Rule) -> None:
        promises = self.run.promises
        ordered = promises["tokens"] == "ordered" and self._promised("token-order")
        if "ordered tokens" in rule.assumes and not ordered:
            raise Refused("it assumes ordered tokens, which are not promised")
        if "unique tokens" in rule.assumes and not promises["tokens_unique"]:
            raise Refused("it assumes unique tokens, which are not promised")

    # Conditions between rows.

    def _proves(self, a: Row, row: Row) -> bool:
        granted = self.run.known(a.at) >= 0
        return granted and (row.at == a.at or row.at in self.run.proving(a.at))

    def _apart(self, a: Row, b: Row) -> bool:
        """Two owners of one lock that are no readers together."""
        return a.key == b.key and a.process != b.process and not a.mode == b.mode == SHARED

    def _conflict(self, a: Row, b: Row) -> bool:
        met = a.key == b.key or self._on_line(a.text, b.text)
        return met and a.process != b.process and not a.mode == b.mode != EXCLUSIVE

    def _on_line(self, a: str, b: str) -> bool:
        paths = self.run.promises.get("subtrees") and a[:1] == b[:1] == "/"
        return bool(paths) and (a.startswith(b + "/") or b.startswith(a + "/"))

    def _logged(self, before: Row, after: Row) -> bool:
        """Whether the resource's log has one row before another."""
        writers = [self.rows.named(row.at)[0] for row in (before, after)]
        if writers[0] == writers[1]:
            return before.at < after.at
        firsts = []
        for writer in writers:
            base = self.rows.base[writer]
            size = next(len(w.rows) // 96 for w in self.rows.writers if w.name == writer)
            served = [at for at in range(base, base + size) if self.rows.f[at] in (12, 13)]
            firsts.append(min(self.rows.t_inv[at] for at in served))
        return firsts[0] < firsts[1]

    def grants(self, key: int) -> list[int]:
        """The acquires of a lock, or of those on a line with it, that were granted for sure."""
        if not hasattr(self, "_grants"):
            self._grants: dict[int, list[int]] = {}
            for at, f in enumerate(self.rows.f):
                if f in ASKS and self.rows.status[at] and self.run.known(at) >= 0:
                    self._grants.setdefault(self.rows.key[at], []).append(at)
        text = self.rows.strings[key]
        near = [k for k in self._grants if k == key or self._on_line(self.rows.strings[k], text)]
        return [at for k in near for at in self._grants[k]]

    def _disorder(self, key: int) -> bool:
        """Whether the tokens of a lock contradict its own grants: their order, or their holds."""
        rows, run, slack = self.rows, self.run, self.run.slack_ns
        found = [(rows.token[run.known(a)], rows.t_ret[run.known(a)], a) for a in self.grants(key)]
        found = sorted(one for one in found if one[0] != -1)
        soonest, last = [], INF
        for _, known, _ in reversed(found):
            soonest.append(last := min(last, known))
        open_now: list[tuple[int, int, int]] = []
        for (token, known, b), rest in zip(found, reversed(soonest), strict=True):
            open_now = [one for one in open_now if max(one[0], rows.t_inv[one[2]]) > rest + slack]
            row = Row(rows, b)
            for far, before, a in open_now:
                other = Row(rows, a)
                own = rows.token[run.known(a)]
                late = other.t_inv > known + slack and not (row.mode == other.mode != EXCLUSIVE)
                held = far > known + slack and run.reach(b) <= before + slack
                if own == token:
                    in_order = row.t_inv > before + slack or other.t_inv > known + slack
                    if in_order and self._apart(row, other) and self._conflict(row, other):
                        return True
                elif late or (held and self._conflict(other, row)):
                    return True
            open_now.append((run.reach(b), known, b))
        return False

    def _in_turn(self, a: Row, b: Row, proof: Row) -> bool:
        """Whether b can only have come after a: it was called, or proved to hold, after a's grant.

        A proof says so only where no two holds of the lock overlap.
        """
        if proof.at == b.at:
            met = a.key == b.key or self._on_line(a.text, b.text)
            return met and (a.mode == EXCLUSIVE or b.mode == EXCLUSIVE)
        return self._conflict(a, b) and self._disjoint(a.key)

    def _disjoint(self, key: int) -> bool:
        run, open_now = self.run, list[tuple[int, int]]()
        ret = self.rows.t_ret
        for known, b in sorted((ret[run.known(a)], a) for a in self.grants(key)):
            open_now = [(far, a) for far, a in open_now if far > known + run.slack_ns]
            for _, a in open_now:
                met = run.reach(b) > ret[run.known(a)] + run.slack_ns
                if met and self._conflict(Row(self.rows, a), Row(self.rows, b)):
                    return False
            open_now.append((run.reach(b), b))
        return True


def verify(
    rows: Rows,
    manifest: Mapping[str, Any],
    faults: Iterable[Mapping[str, Any]],
    verdicts: Mapping[str, Any],
    error_ns: int = 0,
) -> Outcome:
    """What comes of all certificates of a run. `rows` and `faults` as recorded."""
    kinds, kills = _faults(faults)
    verifier = Verifier(Run(rows, manifest["promises"], kinds, kills, error_ns))
    accepted, refused, bare = 0, [], 0
    for verdict in verdicts["verdicts"]:
        for n, finding in enumerate(verdict["findings"], 1):
            if finding.get("certificate") is None:
                bare += 1
                continue
            try:
                verifier.finding(finding)
                accepted += 1
            except Exception as error:  # whatever it says, a certificate is refused and no crash
                why = str(error) if isinstance(error, Refused) else f"damaged: {error!r:.99}"
                refused.append(f"{verdict['property']}, finding {n} ({finding['kind']}): {why}")
    return Outcome(accepted, refused, bare)


def verify_run(path: Path, verdicts: Mapping[str, Any] | None = None) -> Outcome:
    """What comes of the certificates of a run directory: its verdicts.json, or other verdicts.

    UsageError or Damaged where its files are none of a run.
    """
    try:
        manifest = files.table(files.read(path, "manifest.json"))
        told = verdicts or files.table(files.read(path, "verdicts.json"))
        clocks = _lines(path, "clocks.jsonl")
        widened = Clocks(clocks) if clocks else None
        rows = Rows(of_directory(path), widened.widen if widened else None)
        error_ns = widened.error_ns if widened and rows.t_inv is not None else 0
        if widened and not widened.whole:
            return Outcome(0, (), why="not everything was fetched from every host")
        return verify(rows, manifest, _lines(path, "faults.jsonl"), told, error_ns)
    except FileNotFoundError as error:
        raise Damaged(f"{path}: {error.filename} is not there") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Damaged(f"{path}: damaged: {error!r:.200}") from error


def _lines(path: Path, name: str) -> list[dict[str, Any]]:
    try:
        return [files.row(line) for line in files.read(path, name).split(b"\n")[:-1]]
    except FileNotFoundError:
        return []


def _faults(rows: Iterable[Mapping[str, Any]]) -> tuple[set[str], list[Kill]]:
    """All kinds of fault, and when processes were killed, as the rows of faults.jsonl say."""
    first: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["event"] == "injected" or (
            row["event"] in ("skipped", "failed") and row["id"] not in first
        ):
            first[row["id"]] = row
    kills = [
        Kill(int(row["before_ns" if row["event"] == "injected" else "t_ns"]), row.get("nodes", ()))
        for row in first.values()
        if row["do"] == "kill"
    ]
    return {str(row["do"]) for row in first.values()}, kills


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
