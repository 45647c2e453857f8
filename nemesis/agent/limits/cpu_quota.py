"""CPU quotas: the processes of a node are stopped for a part of each period, by signals.

It needs no control group. Like a quota of one, it gives short stalls in a fixed rhythm, and no
slower clock: what runs, runs at full speed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form
from holdfast.nemesis.agent.signals import Stops

SECOND_NS = 1_000_000_000
ALL_PPM = 1_000_000
JOIN_S = 3.0


@dataclass(slots=True)
class _Fault:
    """One active quota.

    run_s, stop_s  how long its nodes run and are stopped in each period
    used_ns        process -> CPU time it had used before
    periods        node -> periods in which every thread of it was seen stopped
    stopped_ns     node -> how long it was
    """

    nodes: list[str]
    run_s: float
    stop_s: float
    begun_ns: int
    used_ns: dict[Process, int]
    periods: dict[str, int]
    stopped_ns: dict[str, int]
    problem: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


class CpuQuota:
    """Faults of kind `cpu-quota`. A node that another fault stops is left to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stops = world.part(Stops)
        self._faults: dict[str, _Fault] = {}

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Limits the CPU time of `nodes` until the heal. Errors: Refused."""
        nodes, share_ppm, period_ns = args["nodes"], args["share_ppm"], args["period_ns"]
        assert isinstance(nodes, list) and isinstance(share_ppm, int)
        assert isinstance(period_ns, int)
        if not 0 < share_ppm < ALL_PPM or not SECOND_NS // 100 <= period_ns <= SECOND_NS:
            raise Refused("cpu-quota: needs a share > 0 and < 1 and a period of 10 ms to 1 s")
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"cpu-quota {'+'.join(nodes)}: no live process; restart it first")
        nodes = self._world.up(nodes)
        run_s = period_ns * share_ppm / ALL_PPM / SECOND_NS
        made = self._faults[fault] = _Fault(
            nodes=nodes,
            run_s=run_s,
            stop_s=period_ns / SECOND_NS - run_s,
            begun_ns=time.monotonic_ns(),
            used_ns={
                process: processes.cpu_ns(process)
                for node in nodes
                for process in self._world.living(node)
            },
            periods=dict.fromkeys(nodes, 0),
            stopped_ns=dict.fromkeys(nodes, 0),
        )
        made.thread = threading.Thread(target=self._limit, args=(fault, made), daemon=True)
        made.thread.start()
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """Periods in which each node was seen stopped; effective if every node was, once."""
        made = self._faults.get(fault)
        if made is None:
            return {"effective": False}
        used_ns = {
            node: sum(
                processes.cpu_ns(process) - made.used_ns.get(process, 0)
                for process in self._world.living(node)
            )
            for node in made.nodes
        }
        evidence: Evidence = {
            "effective": all(made.periods.values()),
            "periods": {**made.periods},
            "stopped_ns": {**made.stopped_ns},
            "cpu_ns": {**used_ns},
            "wall_ns": time.monotonic_ns() - made.begun_ns,
        }
        return {**evidence, "problem": made.problem} if made.problem else evidence

    def heal(self, fault: str) -> Evidence:
        """The nodes run all the time."""
        made = self._faults[fault]
        made.over.set()
        if made.thread is not None:
            made.thread.join(JOIN_S)
        self._stops.release(fault)
        evidence = self.observe(fault)
        del self._faults[fault]
        return evidence

    def settle(self, node: str) -> None:
        """Nothing: the next period stops a node that was started again."""

    def _limit(self, fault: str, made: _Fault) -> None:
        try:
            while not made.over.wait(made.run_s):
                free = [node for node in made.nodes if not self._stops.stopped(node)]
                states = self._stops.stop(fault, free)
                begun_ns = time.monotonic_ns()
                made.over.wait(made.stop_s)
                seen = {n for n, state in states.items() if state == "T" and self._still(n)}
                self._stops.release(fault)
                for node in seen:
                    made.periods[node] += 1
                    made.stopped_ns[node] += time.monotonic_ns() - begun_ns
        except OSError as error:
            made.problem = f"{type(error).__name__}: {error}"
        finally:
            self._stops.release(fault)

    def _still(self, node: str) -> bool:
        """Whether every process of a node is stopped now, and there is one."""
        living = self._world.living(node)
        return bool(living) and all(processes.state(process) == "T" for process in living)


CPU_QUOTA = Half(
    request="cpu-quota",
    form=Form(
        says="SIGSTOP and SIGCONT to all processes of the nodes in turn, so that they run for the"
        " share `share_ppm` of each period.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "share_ppm": ("a whole number", 100_000),
            "period_ns": ("a whole number", 100_000_000),
        },
    ),
    make=CpuQuota,
)
