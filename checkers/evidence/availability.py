"""Availability of a service, and its behaviour with less: quorums, and the sides of a partition.

Measured numbers beside the textbook's. A partition shows what a system chooses: liveness, if
clients that reach only a minority of the servers are granted locks; else safety.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.checkers.evidence.formulas import quorum_failure
from holdfast.checkers.facts.fault_windows import servers_struck
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.evidence import Availability, Cut, Partitions, Side, Waits

ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)


def availability(case: Case) -> Availability:
    """Shares of time and of requests in which servers were stopped, or did not respond."""
    servers = int(case.options.get("servers", "0"))
    span_ns = case.stop_ns - case.start_ns
    rows = rows_of(case, *ASKS)
    status = column(case, "status")[rows]
    unknown = int(((status == Status.INFO) | (status == Status.INVOKED)).sum())
    found = Availability(
        servers=servers, unanswered_share=round(unknown / len(rows), 6) if len(rows) else None
    )
    if not servers or span_ns <= 0:
        return found
    down_ns, majority_ns = _down(case, servers)
    down = down_ns / (servers * span_ns)
    return replace(
        found,
        down_share=round(down, 6),
        quorum_failure=quorum_failure(servers, down),
        majority_down_share=round(majority_ns / span_ns, 6),
    )


def _down(case: Case, servers: int) -> tuple[int, int]:
    """Total time in which servers were stopped; and time in which half of them or more were."""
    edges: list[tuple[int, int, str]] = []
    for window in case.windows:
        if window.effective and window.traits.takes_servers_down:
            from_ns = min(max(window.from_ns, case.start_ns), case.stop_ns)
            to_ns = min(max(window.to_ns, from_ns), case.stop_ns)
            for node in servers_struck(case, window):
                edges += [(from_ns, 1, node), (to_ns, -1, node)]
    stopped: dict[str, int] = {}
    down_ns = majority_ns = last_ns = 0
    for t_ns, change, node in sorted(edges):
        n = sum(count > 0 for count in stopped.values())
        down_ns += n * (t_ns - last_ns)
        majority_ns += (t_ns - last_ns) * (2 * n >= servers)
        stopped[node] = stopped.get(node, 0) + change
        last_ns = t_ns
    return down_ns, majority_ns


def partitions(case: Case) -> Partitions:
    """What the system chose when its clients were partitioned from servers."""
    servers = int(case.options.get("servers", "0"))
    cuts = []
    for window in case.windows:
        sides = _sides(case, window, servers) if window.effective else []
        if sides:
            cuts.append((window, sides))
    sides_of = (side for _, sides in cuts for side in sides)
    every = list(sides_of)
    some = [side for side in every if 0 < 2 * side.servers <= servers]
    asked, fresh = sum(side.asked for side in some), sum(side.fresh for side in some)
    others = sum(side.granted for side in every if 2 * side.servers > servers)
    if fresh:
        choice, reason = "liveness", f"{fresh} grants to clients that reached only a minority"
    elif asked:
        choice, reason = "safety", f"no new grant to {asked} acquires that reached only a minority"
        reason += f", {others} to those that reached a majority"
    else:
        choice, reason = None, "no client that reached only a minority asked for a lock"
    shown = tuple(Cut(fault=window.id, sides=tuple(sides)) for window, sides in cuts)
    return Partitions(choice=choice, reason=reason, cuts=shown)


def _sides(case: Case, window: Window, servers: int) -> list[Side]:
    """The clients of a run by number of servers reached, most first; none if all reach all.

    A link is "node<-address from which it receives nothing". The owner of an address is not
    recorded, so a partition that cuts off the resource too shows nothing.
    """
    links = window.evidence.get("links")
    if not isinstance(links, dict) or window.traits.leaves_running:
        return []
    deaf = [str(link).partition("<-")[0] for link in links]
    clients = {node: process for process, node in case.nodes.items()}
    if "resource" in deaf or not clients.keys() & set(deaf):
        return []
    attempts = table(case)
    real = attempts.op != Op.PROBE
    meets = real & (attempts.inv <= window.to_ns) & (attempts.ret >= window.from_ns)
    within = real & attempts.ok & (attempts.ret >= window.from_ns) & (attempts.ret <= window.to_ns)
    anew = within & (attempts.inv >= window.from_ns)
    working = set(np.unique(attempts.process[real]).tolist())
    reach: dict[int, list[int]] = {}
    for node, process in clients.items():
        if process not in working:
            continue
        reach.setdefault(max(servers - deaf.count(node), 0), []).append(process)
    sides = []
    for n, processes in sorted(reach.items(), reverse=True):
        mine = np.isin(attempts.process, processes)
        sides.append(
            Side(
                servers=n,
                clients=len(processes),
                asked=int((meets & mine).sum()),
                granted=int((within & mine).sum()),
                fresh=int((anew & mine).sum()),
            )
        )
    return sides


def waits(case: Case) -> Waits:
    """Requests to the lock service, and waits that clients were notified of."""
    attempts = table(case)
    requests = len(
        rows_of(
            case, *ASKS, Op.HEARTBEAT, Op.HOLDER, Op.PLACE, Op.LENGTH, Op.CHECK, Op.FORCE_UNLOCK
        )
    )
    told = len(rows_of(case, Op.WAITING))
    grants = int(attempts.ok.sum())
    releases = rows_of(case, Op.RELEASE)
    freed = int((column(case, "status")[releases] == Status.OK).sum())
    return Waits(
        clients=len(np.unique(attempts.process[attempts.op != Op.PROBE])),
        requests=requests,
        requests_per_grant=round(requests / grants, 3) if grants else None,
        told=told,
        per_grant=round(told / grants, 3) if grants else None,
        per_release=round(told / freed, 3) if freed else None,
    )
