"""Accepts or refuses the certificates of a run's verdicts, by the recorded rows alone.

A certificate is rebuilt from its rule and the rows that it names: the kind of each row, the
conditions between them, the numbers on both sides of every inequality. It is accepted if all of
that holds and the certificate is equal to the rebuilt one, byte for byte. No code of the checkers
is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.harness.core.fault_traits import UNKNOWN, Traits, of_manifest
from holdfast.harness.core.json_value import Json
from holdfast.harness.properties import PROPERTIES
from holdfast.harness.runs import files
from holdfast.harness.verification.answers import Answers, Lengths
from holdfast.harness.verification.clocks import Clocks
from holdfast.harness.verification.conditions import Conditions, Row, job
from holdfast.harness.verification.derived import Run, Window
from holdfast.harness.verification.opportunities import WitnessCheck, witnessed
from holdfast.harness.verification.orders import FILE, Orders
from holdfast.harness.verification.recorded_rows import (
    SAYS_WHY,
    Damaged,
    Rows,
    Starved,
    lines,
    of_directory,
    starved_spans,
)
from holdfast.harness.verification.rule import (
    OPS,
    ROW_FIELDS,
    STATUSES,
    Refused,
    Rule,
    assumed,
    each_of,
    facts_of,
    stated,
    valued,
)
from holdfast.harness.verification.rules import PATTERNS, RULES
from holdfast.harness.verification.waiting import Waits

NUMBER = re.compile(r"[1-9][0-9]*")
HOLDS = {"<": int.__lt__, "<=": int.__le__, "==": int.__eq__}


class Outcome(NamedTuple):
    """The number of certificates accepted, and a line for each that was refused.

    bare   findings without a certificate: there is no rule for their kind
    why    why nothing was verified, "" if it was
    whole  properties of which everything was accepted: every finding, or the order
    unverifiable   properties judged by checkers of the user, for which there are no rules
    unordered   properties that hold and could have an order, but have no verifiable one
    opportunities   number of rows of opportunities whose first witness was accepted
    unruled     the rows that have no rule
    """

    accepted: int
    refused: Sequence[str]
    bare: int = 0
    why: str = ""
    whole: Sequence[str] = ()
    unordered: Sequence[str] = ()
    unverifiable: Sequence[str] = ()
    opportunities: int = 0
    unruled: Sequence[str] = ()


class Verifier:
    """The certificates of one run, against its rows."""

    def __init__(self, run: Run) -> None:
        self.run, self.rows = run, run.rows
        self.conditions = Conditions(run)
        answers = Answers(self.conditions)
        parts = (self.conditions, Waits(self.conditions), answers, Lengths(answers))
        self.names = {name: of for part in parts for name, of in part.names().items()}

    # One finding.

    def finding(self, finding: Mapping[str, object]) -> None:
        """Refused, with the reason, unless its certificate proves the finding."""
        certificate = finding.get("certificate")
        if not isinstance(certificate, dict):
            raise Refused("it has no certificate")
        rule = RULES.get(str(certificate.get("rule")))
        if rule is None or finding.get("kind") not in rule.kinds:
            raise Refused(f"there is no rule {certificate.get('rule')!r} for such findings")
        roles = self._roles(rule, certificate.get("rows"))
        call = rule.calls.get(str(finding["kind"]))
        if call is not None and roles["row"].f != OPS[call]:
            raise Refused(f"its row is no {call}")
        about = roles[rule.lock]
        own = job(about)[0] if str(finding.get("kind")).startswith("job-") else about.text
        if finding.get("lock") != own:
            raise Refused("it names another lock than its rows do")
        states = stated(rule, certificate.get("states", {}))
        names = {**self.names, **states, **roles, "roles": roles}
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
            **({"states": states} if rule.states else {}),
        }
        if _text(whole) != _text(certificate):
            wrong = [n for n in whole if _text(whole[n]) != _text(certificate.get(n))]
            raise Refused(f"its {' and '.join(wrong) or 'fields'} are not as recorded")

    def _roles(self, rule: Rule, told: object) -> dict[str, Row]:
        """The rows that the certificate names, each of the kind that its role has to be."""
        if not isinstance(told, dict):
            raise Refused("it names no rows")
        roles = {}
        for name, each in told.items():
            kinds = rule.roles.get(name) or rule.roles.get(NUMBER.sub("*", name, count=1))
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

    def _shown(self, row: Row) -> dict[str, object]:
        writer, number = self.rows.named(row.at)
        fields = {name: getattr(row, name) for name in ROW_FIELDS}
        if row.f in SAYS_WHY:
            fields["res"] = self.rows.strings[row.res]
        return {"writer": writer, "row": number, **fields}

    def _assumed(self, rule: Rule) -> None:
        promises = self.run.promises
        ordered = promises["tokens"] == "ordered" and self.run.promised("token-order")
        if "ordered tokens" in rule.assumes and not ordered:
            raise Refused("it assumes ordered tokens, which are not promised")
        if "first come, first served" in rule.assumes and promises["order"] != "fifo":
            raise Refused("it assumes first come, first served, which is not promised")
        if "unique tokens" in rule.assumes and not promises["tokens_unique"]:
            raise Refused("it assumes unique tokens, which are not promised")


def run_of(
    rows: Rows,
    manifest: Mapping[str, Any],
    faults: Iterable[Mapping[str, Any]],
    times: Iterable[Mapping[str, Any]],
    error_ns: int = 0,
    starved: Iterable[Starved] = (),
) -> Run:
    """A run with its declarations. faults, times: rows of faults.jsonl, times.jsonl."""
    marks = {row["mark"]: int(row["t_ns"]) for row in times if "t_ns" in row}
    if "start" not in marks:
        marks["start"] = rows.first_ns
    last_ns = max((max(edges) for edges in (rows.t_inv, rows.t_ret) if edges), default=0)
    return Run(
        rows,
        manifest["promises"],
        _windows(faults, max(last_ns, marks.get("end", 0)), of_manifest(manifest)),
        error_ns,
        stop_ns=marks.get("stop", last_ns),
        lease_ns=int(manifest["plan"]["lease_ns"]),
        resource=str(manifest["plan"]["resource"]),
        start_ns=marks["start"],
        end_ns=max(last_ns, marks.get("end", 0)),
        servers=int(manifest["plan"].get("nodes", 0)),
        starved=starved,
    )


def verify(run: Run, verdicts: Mapping[str, Any], orders: bytes = b"") -> Outcome:
    """Verify all certificates of a run. orders: the bytes of its file of orders."""
    verifier = Verifier(run)
    accepted, refused, bare, whole = 0, list[str](), 0, list[str]()
    places = WitnessCheck(verifier.conditions, whole=verdicts.get("in_parts") is None)
    tried, unruled = 0, dict[str, None]()
    walked = Orders(run, verifier.conditions, orders)
    users = tuple(
        str(row["property"])
        for row in verdicts["verdicts"]
        if row.get("checker") and row["property"] not in PROPERTIES
    )
    for verdict in verdicts["verdicts"]:
        before = accepted, bare
        if verdict.get("certificate") is not None:
            why = _held(verdict, walked)
            accepted += not why
            refused += [f"{verdict['property']}, its order: {why}"] * bool(why)
        for n, finding in enumerate(verdict["findings"], 1):
            if finding.get("certificate") is None:
                bare += verdict["property"] not in users
                continue
            why = verdict_on(finding, verifier)
            accepted += not why
            about = f"{verdict['property']}, finding {n} ({finding['kind']})"
            refused += [f"{about}: {why}"] * bool(why)
        for fault, entry in witnessed(verdict):
            if entry["row"] not in PATTERNS:
                unruled[str(entry["row"])] = None
                continue
            why = places.wrong(fault, entry)
            tried += not why
            about = f"{verdict['property']}, opportunity {entry['row']} under {fault}"
            refused += [f"{about}: {why}"] * bool(why)
        if accepted > before[0] and bare == before[1]:
            whole.append(str(verdict["property"]))
    unordered = tuple(
        str(verdict["property"])
        for verdict in verdicts["verdicts"]
        if verdict["verdict"] == "HOLDS" and verdict["property"] in walked.properties
        if verdict.get("certificate") is None
    )
    outcome = Outcome(accepted, refused, bare, whole=whole, unordered=unordered, unverifiable=users)
    return outcome._replace(opportunities=tried, unruled=tuple(unruled))


def verdict_on(finding: Mapping[str, object], verifier: Verifier) -> str:
    """Why the certificate of a finding is refused, "" if it is accepted."""
    try:
        verifier.finding(finding)
    except Refused as error:
        return str(error)
    except Exception as error:  # whatever it says, a certificate is refused and no crash
        return f"damaged: {error!r:.99}"
    return ""


def _held(verdict: Mapping[str, Any], orders: Orders) -> str:
    """Why the certificate of a property that holds is refused, "" if it is accepted."""
    try:
        if verdict["verdict"] != "HOLDS" or verdict["findings"]:
            return "only a property that holds has one"
        counted = verdict["exercised"]
        for name, number in orders.counts().items():
            if counted.get(name, number) != number:
                return f"{counted[name]} {name} are told, and {number} were recorded"
        return orders.wrong(str(verdict["property"]), verdict["certificate"])
    except Exception as error:  # whatever it says, a certificate is refused and no crash
        return f"damaged: {error!r:.99}"


def verify_run(
    path: Path, verdicts: Mapping[str, object] | None = None, orders: bytes | None = None
) -> Outcome:
    """Verify the certificates of a run directory: of its verdicts.json, or of other verdicts.

    UsageError or Damaged if its files are not those of a run.
    """
    try:
        manifest = files.table(files.read(path, "manifest.json"))
        if verdicts is None:
            verdicts = files.table(files.read(path, "verdicts.json"))
        if orders is None:
            orders = files.read(path, FILE) if files.is_file(path, FILE) else b""
        clocks = lines(path, "clocks.jsonl")
        widened = Clocks(clocks) if clocks else None
        rows = Rows(of_directory(path), widened.widen if widened else None)
        error_ns = widened.error_ns if widened and rows.t_inv is not None else 0
        if widened and not widened.whole:
            return Outcome(0, (), why="not everything was fetched from every host")
        files_of = (lines(path, "faults.jsonl"), lines(path, "times.jsonl"))
        starved = starved_spans(path, widened.span if widened else None)
        return verify(run_of(rows, manifest, *files_of, error_ns, starved), verdicts, orders)
    except FileNotFoundError as error:
        raise Damaged(f"{path}: {error.filename} is not there") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Damaged(f"{path}: damaged: {error!r:.200}") from error


def _windows(
    rows: Iterable[Mapping[str, Any]], end_ns: int, traits: Mapping[str, Traits]
) -> list[Window]:
    """The faults of a run, from the rows of faults.jsonl."""
    steps: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        steps.setdefault(row["id"], {})[row["event"]] = row
    found = []
    for ident, events in steps.items():
        injected, healed = events.get("injected"), events.get("healed")
        begun = injected or events.get("skipped") or events.get("failed")
        if begun is not None:
            kind = traits.get(str(begun["do"]), UNKNOWN)
            killed = injected is not None and kind.kills
            from_ns = int(begun["before_ns" if killed else "t_ns"])
            to_ns = int(healed["t_ns"]) if healed else end_ns if injected else from_ns
            nodes = tuple(begun.get("nodes", ()))
            evidence = (healed or {}).get("evidence", {}) if (healed or {}).get("effective") else {}
            cut = _times(evidence, "cut_ns") if kind.loses_unsynced else ()
            frozen = _times(evidence, "frozen_ns") if kind.hangs_disk else ()
            operated = _times(evidence, "operated_ns") if kind.operates else ()
            rejoined = _times(evidence, "rejoined_ns") if kind.operates else ()
            do, since_ns = str(begun["do"]), min(int(begun.get("before_ns", from_ns)), from_ns)
            still = (since_ns, to_ns) if kind.stops_monotonic else ()
            times = (cut, frozen, operated, still, rejoined)
            effective = injected is not None and bool((healed or {}).get("effective"))
            about = (ident, effective, str(begun.get("leader") or ""), since_ns)
            found.append(Window(from_ns, to_ns, do, nodes, kind, *times, *about))
    return found


def _times(evidence: Mapping[str, Json], name: str) -> tuple[int, ...]:
    """Two times of the evidence of a fault, () if it has none."""
    found = evidence.get(name)
    times = [t for t in found if type(t) is int] if isinstance(found, list) else []
    return tuple(times) if isinstance(found, list) and len(times) == len(found) == 2 else ()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
