"""What a run exercised, counted again: one plain loop per need, without columns or prefilters.

Holds, the resource's log and the ends of holds are taken as derived; only the counting is anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.admissions import newer
from holdfast.checkers.facts.power_losses import losses
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt, by_id, conflict, ordered_tokens
from holdfast.checkers.holds.hierarchy import on_line, paths
from holdfast.checkers.holds.hold_end import certain_end
from holdfast.checkers.holds.overlaps import reaches, slack
from holdfast.checkers.holds.reentry import anew
from holdfast.checkers.holds.token_order import ordered
from holdfast.checkers.holds.waits import waits
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.job_keys import job_of
from holdfast.harness.core.operations import Mode, Op, Status


class Ask(NamedTuple):
    """One acquire, its columns by name. certain: it has a certain hold [ret, end]."""

    n: int
    id: int
    process: int
    key: int
    mode: int
    f: int
    inv: int
    ret: int
    ok: bool
    unknown: bool
    wait: int
    token: int
    end: int
    known: int
    proof: int
    bound: int
    over: int
    queued: int
    certain: bool
    reach: int
    again: bool


class Counts:
    """The counts of each need of one case, and whether they suffice."""

    def __init__(self, case: Case) -> None:
        self.case, self.rows = case, list(case.history.rows)
        t = table(case)
        columns = (
            t.id, t.process, t.key, t.mode, t.op, t.inv, t.ret, t.ok, t.unknown, t.wait, t.token,
            t.end, t.known, t.proof, t.bound, t.over, t.queued, t.certain, reaches(case),
            case.history.rows["op"][t.row] & 1,
        )  # fmt: skip
        plain = zip(range(len(t)), *(column.tolist() for column in columns), strict=True)
        self.every = [Ask(*one) for one in plain]
        self.asked = [a for a in self.every if a.f != Op.PROBE]
        self.log = [self.rows[row] for row in resource_log.log(case).rows]

    def lines(self) -> Iterator[list[Ask]]:
        """The acquires of each lock, or of each maximal ancestor chain."""
        known = paths(self.case)
        keys = {a.key for a in self.every}
        for last in sorted(keys):
            if last not in known:
                yield [a for a in self.every if a.key == last]
            elif not any(
                k in known and k != last and known[k].startswith(known[last] + "/") for k in keys
            ):
                names = {k for k in keys if k in known and on_line(known[k], known[last])}
                names = {k for k in names if (known[last] + "/").startswith(known[k] + "/")}
                yield [a for a in self.every if a.key in names]

    @staticmethod
    def met(a: Ask, others: Sequence[Ask], begun: str, over: str, by_ns: int) -> bool:
        """Whether a span of another client had begun before by_ns and was open after a's call."""
        return any(
            b.process != a.process and getattr(b, begun) < by_ns and getattr(b, over) > a.inv
            for b in others
        )

    def contention(self) -> tuple[dict[str, int], bool]:
        waited = {a.n for a in self.asked if a.queued >= 0}
        for line in self.lines():
            held = [b for b in line if b.certain and b.f != Op.PROBE]
            for a in (a for a in line if a.f != Op.PROBE):
                rivals = [b for b in held if Mode.EXCLUSIVE in (a.mode, b.mode)]
                met = self.met(a, rivals, "ret", "end", a.ret) or self.met_full(a, held)
                waited |= {a.n} if met else set()
        return {"acquires": len(self.asked), "contended acquires": len(waited)}, bool(waited)

    def met_full(self, a: Ask, held: Sequence[Ask]) -> bool:
        """Whether holds left fewer permits than it asked for, at some time of its call."""

        def permits(b: Ask) -> tuple[int, int]:
            op = int(self.case.history.rows["op"][table(self.case).row[b.n]])
            return op >> 24, op >> 8 & 0xFFFF

        if a.mode != Mode.PERMITS:
            return False
        held = [b for b in held if b.mode == Mode.PERMITS]
        wanted, limit = permits(a)
        times = [a.inv, *(b.ret for b in held if a.inv < b.ret < a.ret)]
        return any(
            sum(permits(b)[0] for b in held if b.ret <= t < b.end) + wanted > limit for t in times
        )

    def judged_holds(self) -> tuple[dict[str, int], bool]:
        def judged(a: Ask) -> bool:
            if self.case.promises.bound == "none":
                return a.certain and a.ret < a.end
            return a.ok and a.known < max(a.bound, a.proof)

        met = sum(
            self.met(a, [b for b in line if judged(b)], "known", "reach", a.ret)
            for line in self.lines()
            for a in line
            if a.f != Op.PROBE
        )
        counts = {"grants": sum(a.ok for a in self.every)}
        counts["judged grants"] = sum(judged(a) for a in self.every)
        return counts | {"acquires during a judged hold": met}, met > 0

    def handovers(self) -> tuple[dict[str, int], bool]:
        passed = 0
        for line in self.lines():
            mine = sorted((a for a in line if a.ok and a.f != Op.PROBE), key=lambda a: a.ret)
            passed += sum(a.process != b.process for a, b in pairwise(mine))
        return {"handovers": passed}, passed > 0

    def rivals(self) -> tuple[dict[str, int], bool]:
        found = 0
        for line in self.lines():
            mine = [a for a in line if a.f != Op.PROBE]
            found += sum(
                any(
                    b.process != a.process and self.since(b) < a.inv < b.ret
                    for b in mine
                    if b.queued >= 0
                )
                for a in mine
            )
        return {"acquires behind one that waited": found}, found > 0

    def since(self, a: Ask) -> int:
        """The time of the first response that it waits, INF if there is none."""
        mine = (r for r in self.rows if r["f"] == Op.WAITING and r["attempt"] == a.id)
        return min((int(r["t_inv"]) for r in mine), default=INF)

    def behind(self) -> set[int]:
        """The waits with another behind: the numbers of their acquires."""
        found, slack_ns = set[int](), slack(self.case)
        t = table(self.case)
        for key, line in t.by_lock().items() if ordered_tokens(self.case) else ():
            if not ordered(self.case, key):
                continue
            known = [self.every[n] for n in line.tolist()]
            known = [a for a in known if a.ok and a.token != -1]
            known.sort(key=lambda a: a.inv)
            new = anew(self.case, np.array([a.n for a in known], np.intp)).tolist()
            later = [a for a, is_new in zip(known, new, strict=True) if is_new]
            for a in known:
                since_ns = self.since(a)
                smaller = [b for b in known if b.token < a.token]
                last = max((b.token for b in smaller), default=-1)
                held_ns = next((b.end for b in reversed(smaller) if b.token == last), -1)
                then = [
                    g for g in later if since_ns + slack_ns < g.inv < a.ret and g.mode == a.mode
                ]
                if not then or since_ns == INF or not ordered(self.case, a.key):
                    continue
                soon, low = min(then, key=self.since), min(then, key=lambda g: g.token)
                behind = self.since(soon) < min(held_ns, a.ret) and soon.process != a.process
                if behind or (low.token < a.token and low.process != a.process):
                    found.add(a.n)
        return found

    def waits_behind(self) -> tuple[dict[str, int], bool]:
        found = len(self.behind())
        return {"waits with another behind": found}, found > 0 or not waits(self.case).judged

    def patient_waits(self) -> tuple[dict[str, int], bool]:
        behind, long = self.behind(), 0
        most = len(self.case.nodes) + max(0, self.case.promises.aging)
        overtaken = {one.attempt.id: len(one.by) for one in waits(self.case).overtaken}
        lines = [set(line.tolist()) for line in table(self.case).by_lock().values()]
        for a in (self.every[n] for n in behind):
            until_ns = INF if a.wait < 0 else a.inv + a.wait
            turns = [overtaken.get(a.id, 0)]
            for line in (one for one in lines if a.n in one):
                others = [self.every[n] for n in line if self.every[n].process != a.process]
                others = [g for g in others if g.known < INF]
                known = sum(g.known <= until_ns for g in others)
                turns.append(known - sum(g.inv <= self.since(a) for g in others))
            long += max(turns) > most
        counts = {"waits with another behind": len(behind), "of them long enough to starve": long}
        return counts, not self.queued_behind() or long > 0

    def queued_behind(self) -> bool:
        """Whether a client was told to wait while another certainly waited, granted or not."""
        waited = [a for a in self.every if a.f != Op.PROBE and self.since(a) < INF]
        lines = [set(line.tolist()) for line in table(self.case).by_lock().values()]
        return any(
            a.process != b.process
            and a.mode == b.mode
            and self.since(b) < a.inv
            and self.since(a) < self.not_granted_until(b)
            for line in lines
            for a in waited
            for b in waited
            if a.n in line and b.n in line
        )

    def not_granted_until(self, a: Ask) -> int:
        """When its wait was over at the latest: by its return, or by its token, for it was granted
        the lock as soon as the holder before let it go."""
        until, t = a.ret, table(self.case)
        for key, line in t.by_lock().items() if ordered_tokens(self.case) and a.ok else ():
            if a.token == -1 or a.n not in line.tolist() or not ordered(self.case, key):
                continue
            before = [b for b in (self.every[n] for n in line.tolist()) if b.ok and b.token != -1]
            before = sorted((b for b in before if b.token < a.token), key=lambda b: b.inv)
            last = max((b.token for b in before), default=-1)
            ends = [b.end for b in before if b.token == last]
            until = min(until, ends[-1] if ends else -1)
        return until

    def subtrees(self) -> tuple[dict[str, int], bool]:
        if not paths(self.case):
            return {}, True
        found = sum(
            self.met(a, [b for b in line if b.key != a.key and b.certain], "ret", "end", a.ret)
            for line in self.lines()
            for a in line
        )
        return {"acquires above or below a held lock": found}, found > 0

    def bounded_waits(self) -> tuple[dict[str, int], bool]:
        bounded = sum(a.wait >= 0 for a in self.asked)
        return {"acquires with a bounded wait": bounded}, bounded > 0

    def requests(self) -> tuple[dict[str, int], bool]:
        accepted = sum(row["status"] == Status.OK for row in self.log)
        enough = len({int(row["attempt"]) for row in self.log}) > 1
        counts = {"requests": len(self.log), "accepted requests": accepted}
        return counts, enough and not len(resource_log.log(self.case).unlogged)

    def stale_requests(self) -> tuple[dict[str, int], bool]:
        if self.case.options.get("resource") not in ("fenced", "strict"):
            return {}, False
        refused, admitted = 0, dict[int, list[Attempt]]()
        for row in self.log:
            own, key = by_id(self.case).get(int(row["attempt"])), int(row["key"])
            before = admitted.setdefault(key, [])
            if own is not None and row["status"] == Status.OK:
                before.append(own)
            highest = row["aux"] if row["f"] == Op.SERVED_WRITE else row["arg"]
            if own is None or row["status"] != Status.FAIL or row["token"] >= highest:
                continue
            others = (b for b in before if b.process != own.process and conflict(own, b))
            refused += any(newer(self.case, b, own) for b in others)
        return {"stale requests refused": refused}, refused > 0

    def expired_requests(self) -> tuple[dict[str, int], bool]:
        case, late = self.case, []
        for row in self.log:
            a = by_id(case).get(int(row["attempt"]))
            end = certain_end(case, a) if a else None
            if row["f"] != Op.SERVED_WRITE or a is None or end is None:
                continue
            sent = int(row["t_inv"])
            if sent > end.t_ns + case.error_ns and not self._inside(a.id, sent):
                late.append(row)
        refused = sum(row["status"] != Status.OK for row in late)
        return {"writes of expired owners": len(late), "of them refused": refused}, bool(late)

    def _inside(self, attempt: int, t_ns: int) -> bool:
        """Whether its owner may have held by another entry, if any owner may re-enter."""
        known, mine = paths(self.case), next(a for a in self.every if a.id == attempt)
        return any(a.again for a in self.every) and any(
            a.process == mine.process
            and a.id != attempt
            and (a.key == mine.key or {a.key, mine.key} <= {*known})
            and (a.key == mine.key or on_line(known[a.key], known[mine.key]))
            and a.inv <= t_ns <= a.over + self.case.error_ns
            for a in self.every
        )

    def updates(self) -> tuple[dict[str, int], bool]:
        made = [
            row
            for row in self.log
            if row["f"] == Op.SERVED_WRITE and row["status"] == Status.OK and row["arg"] >= 0
        ]
        after = 0
        for key in {int(row["key"]) for row in made}:
            owners = [row["attempt"] for row in made if row["key"] == key]
            after += sum(bool(a != b) for a, b in pairwise(owners))
        return {"updates": len(made), "updates after another owner's": after}, after > 0

    def probes(self) -> tuple[dict[str, int], bool]:
        known = paths(self.case)
        probed = {a.key for a in self.every if a.f == Op.PROBE}
        left = {
            a.key
            for a in self.asked
            if a.key not in probed
            and not (
                a.key in known
                and any(known[a.key].startswith(known[p] + "/") for p in probed if p in known)
            )
        }
        return {"probed locks": len(probed)}, bool(self.every) and not left

    def stale_releases(self) -> tuple[dict[str, int], bool]:
        said = [row for row in self.rows if row["f"] in (Op.RELEASE, Op.RENEW)]
        refused = [row["f"] for row in said if row["status"] == Status.NOT_OWNER]
        counts = {"releases and renewals": len(said), "rejected as not the owner": len(refused)}
        counts["of them renewals"] = refused.count(Op.RENEW)
        return counts, len(refused) > 0

    def sharing(self) -> tuple[dict[str, int], bool]:
        asked = [a for a in self.every if a.mode != Mode.EXCLUSIVE]
        if not asked:
            return {}, True
        together = 0
        for key in {a.key for a in asked}:
            held = sorted((a for a in asked if a.key == key and a.certain), key=lambda a: a.ret)
            together += sum(a.process != b.process and b.ret < a.end for a, b in pairwise(held))
        return {"held at once with another": together}, together > 0

    def reentry(self) -> tuple[dict[str, int], bool]:
        asked = [a for a in self.every if a.again]
        if not asked:
            return {}, True
        again = sum(
            a.certain
            and any(
                b.certain and (b.process, b.key) == (a.process, a.key) and b.end > a.inv
                for b in asked
                if b.n < a.n
            )
            for a in asked
        )
        return {"reentrant grants": again}, again > 0

    def second_locks(self) -> tuple[dict[str, int], bool]:
        waits = []
        for a in (a for a in self.every if a.queued >= 0):
            mine = (b for b in self.every if b.process == a.process and b.n < a.n and b.certain)
            held = {b.key for b in mine if b.end > a.inv} - {a.key}
            waits += [(a, held)] if held else []
        crossed = any(
            _cycle(some) for size in range(2, len(waits) + 1) for some in permutations(waits, size)
        )
        return {"waits that held another lock": len(waits), "mutual waits": int(crossed)}, crossed

    def repeats(self) -> tuple[dict[str, int], bool]:
        sent = [r for r in self.rows if r["f"] == Op.WRITE and r["status"] == Status.OK]
        again = sum(bool(row["aux"] > 0) for row in sent)
        return {"writes sent again": again}, again > 0

    def jobs(self) -> tuple[dict[str, int], bool]:
        did, found, strings = dict[int, int](), 0, self.case.history.strings
        told = [
            row
            for row in self.rows
            if row["f"] in (Op.READ, Op.WRITE) and row["status"] == Status.OK and row["res"] > 0
            if job_of(strings[int(row["key"])])
        ]
        for row in told:
            if row["f"] == Op.WRITE:
                did[int(row["key"])] = int(row["process"])
        for row in told:
            by = did.get(int(row["key"]), int(row["process"]))
            found += row["f"] == Op.READ and by != row["process"]
        return {"jobs done": len(did), "jobs that others found done": found}, found > 0

    def named_waits(self) -> tuple[dict[str, int], bool]:
        waited = [a for a in self.every if a.ok and a.queued >= 0 and a.token != -1]
        named = {
            (int(row["key"]), int(row["token"]))
            for row in self.rows
            if row["f"] == Op.HOLDER and row["status"] == Status.OK and row["token"] != -1
        }
        known = sum((a.key, a.token) in named for a in waited)
        counts = {"grants to waiting clients": len(waited), "of them named by a response": known}
        return counts, known > 0

    def losses(self) -> tuple[dict[str, int], bool]:
        notices = [row for row in self.rows if row["f"] == Op.LOST]
        refused = [r for r in self.rows if r["f"] == Op.RENEW and r["status"] == Status.NOT_OWNER]
        told = {int(row["attempt"]) for row in (*notices, *refused)}
        held = sum(a.ok and a.id in told for a in self.every)
        return {"loss notices": len(notices), "holders notified": held}, held > 0

    def tokens(self) -> tuple[dict[str, int], bool]:
        after = 0
        for line in self.lines():
            mine = [a for a in line if a.ok and a.token != -1]
            after += sum(any(b.process != a.process and b.ret < a.inv for b in mine) for a in mine)
        carries = sum(a.ok and a.token != -1 for a in self.every)
        counts = {"grants": sum(a.ok for a in self.every), "grants with a token": carries}
        return counts | {"grants after another client's": after}, carries > 0 and after > 0

    def power_losses(self) -> tuple[dict[str, int], bool]:
        spans, slack_ns, held, met = losses(self.case), slack(self.case), 0, 0
        for from_ns, to_ns, _ in spans:
            for line in self.lines():
                for a in line:
                    if not (a.known + slack_ns < from_ns and a.reach > to_ns + slack_ns):
                        continue
                    held += 1
                    met += sum(
                        b.process != a.process
                        and b.f != Op.PROBE
                        and to_ns + slack_ns < b.inv < a.reach
                        for b in line
                    )
        power = sum(not span.operation for span in spans)
        counts = {"power losses of a majority": power}
        across = "a power loss"
        if any(window.traits.operates for window in self.case.windows):
            counts["operations on servers"] = sum(
                window.effective
                and bool(window.traits.operates)
                and "operated_ns" in window.evidence
                for window in self.case.windows
            )
            across = "an operation or a power loss"
        counts[f"holds across {across}"] = held
        return counts | {"acquires during such a hold, after it": met}, met > 0

    def queries(self) -> tuple[dict[str, int], bool]:
        def told(f: Op) -> list[np.void]:
            return [row for row in self.rows if row["f"] == f and row["status"] == Status.OK]

        asked = sum(row["f"] in (Op.HOLDER, Op.PLACE, Op.LENGTH) for row in self.rows)
        checks = [row for row in self.rows if row["f"] == Op.CHECK]
        left = [int(row["res"]) for row in told(Op.RELEASE) if row["res"] > 0]
        counts = dict[str, int]()
        if checks:
            known = {a.id: a for a in self.every}
            said = [row for row in checks if row["status"] in (Status.OK, Status.FAIL)]
            mine = [(known[int(r["attempt"])], r) for r in said if int(r["attempt"]) in known]
            counts["holds queried"] = len(said)
            counts["over when queried"] = sum(bool(a.end < row["t_inv"]) for a, row in mine)
        if left:
            counts["releases with entries left"] = sum(n > 1 for n in left)
            counts["full releases"] = left.count(1)
        if left and not checks and not asked:
            return counts, all(counts.values())
        if checks and not asked:
            return counts, counts["over when queried"] > 0
        named = sum(row["token"] != -1 for row in told(Op.HOLDER))
        places = sum(row["res"] >= 0 for row in told(Op.PLACE))
        lengths = sum(row["res"] > 0 for row in told(Op.LENGTH))
        aged = sum(int(row["spent"]) % 65536 > 0 for row in told(Op.HOLDER))
        counts |= {"queries": asked, "holders named": named, "hold ages": aged}
        counts |= {"queue positions": places, "lengths above 0": lengths}
        measured = any(row["f"] == Op.LENGTH for row in self.rows)
        return counts, named > 0 and places > 0 and (lengths > 0 or not measured)

    # Faults.

    def kind(self, do: str) -> tuple[dict[str, int], list[str]]:
        """Its counts, and the beginnings of the reasons why they do not suffice."""
        windows = [window for window in self.case.windows if window.do == do]
        took = [window for window in windows if window.effective]
        met = [window for window in took if self._held(window)]
        counts = {f"{do} windows": len(met)}
        counts[f"{do} windows without effect"] = len(windows) - len(took)
        if not met:
            none = f"no {do} took effect" if windows else f"no {do} took place"
            return counts, [f"no {do} of the holder"] if took else [none]
        reasons = {
            "no acquire": not any(
                a.inv <= w.to_ns and a.ret >= w.from_ns for a in self.asked for w in met
            ),
            "no hold": not any(
                a.certain and a.ret < a.end and a.ret <= t_ns <= a.end
                for a in self.every
                for w in met
                for t_ns in (w.from_ns, w.to_ns)
            ),
        }
        able = [window for window in met if self._grants(window)]
        reasons["no grant during"] = bool(able) and not any(
            a.ok and w.from_ns <= a.ret <= w.to_ns for a in self.every for w in able
        )
        heal_ns = max(window.to_ns for window in met)
        reasons["no grant after"] = not any(a.ok and a.ret > heal_ns for a in self.every)
        return counts, [name for name, lacks in reasons.items() if lacks]

    def _held(self, window: Window) -> bool:
        nodes = [window.holder] if window.holder else [*window.nodes]
        return window.target != "holder" or any(
            a.certain and a.ret <= window.from_ns <= a.end and self.case.nodes[a.process] in nodes
            for a in self.every
        )

    def _grants(self, window: Window) -> bool:
        """Whether a grant could be expected during a fault."""
        case, servers = self.case, int(self.case.options.get("servers", "0"))
        from_ns, to_ns = window.from_ns, window.to_ns
        struck = len({f"n{n}" for n in range(1, servers + 1)} & {*window.nodes})
        roles = set(window.target.replace("|", "+").split("+"))
        single = roles & {"leader", "follower", "one"}
        on_clients = {"holder", "waiter", "waiters", "client", "clients", "resource"}
        if roles <= on_clients | {"minority"} | single:
            quorum = not single or servers >= 3 if len(single) < 2 else 2 * struck < servers
        else:
            quorum = 2 * struck < servers
        quorum |= window.traits.leaves_running
        if not quorum or window.target == "clients":
            return False
        held = {a.key for a in self.every if a.certain and a.ret <= from_ns and a.end >= to_ns}
        locks = sum(1 for _ in self.lines())
        if case.promises.bound not in ("lease", "session"):
            return len(held) < locks
        drift_ns = -(-case.lease_ns * case.promises.drift_ppm // 1_000_000)
        if to_ns - from_ns > case.lease_ns + drift_ns + case.promises.slip_ns:
            return locks > 0
        held |= {
            a.key
            for a in self.every
            if (a.ok and a.ret <= from_ns) or (a.unknown and a.inv <= from_ns)
            if a.over >= from_ns
        }
        return any(a.inv <= from_ns < a.ret and a.key not in held for a in self.every)


def _cycle(waits: Sequence[tuple[Ask, set[int]]]) -> bool:
    """Whether each wait of these, in this order, is for a lock that the next one's client holds,
    all at one time, and the last one's for the first one's."""
    if len({a.process for a, _ in waits}) < len(waits):
        return False
    after = (*waits[1:], waits[0])
    at_once = max(a.queued for a, _ in waits) <= min(a.ret for a, _ in waits)
    return at_once and all(a.key in held for (a, _), (_, held) in zip(waits, after, strict=True))


PLAIN: dict[str, Callable[[Counts], tuple[dict[str, int], bool]]] = {
    name.replace("_", "-"): getattr(Counts, name)
    for name in (
        "contention", "judged_holds", "handovers", "rivals", "waits_behind", "patient_waits",
        "subtrees", "bounded_waits",
        "requests", "stale_requests", "expired_requests", "updates", "probes", "stale_releases",
        "sharing", "reentry", "second_locks", "repeats", "jobs", "named_waits", "losses",
        "tokens", "power_losses", "queries",
    )
}  # fmt: skip
