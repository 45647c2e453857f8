"""Driver side of the reference service: promises, node commands, leader.

Promises: exclusion, ordered tokens, ownership, loss notification and progress under any fault that
    leaves, or restores, a majority; with a resource that checks tokens, no stale write.
Does not promise: that a holder paused past its lease does not write; a token cannot stop a late
    write before a newer owner's first request.
Tested with: partitions, pauses and crashes of its nodes and of client nodes, wall clock faults.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from holdfast.clusters.systems.operations import OWN_RELEASE, KeepsFiles
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.clusters.systems.reference.client.connection import Link, NoAnswer, NotSent
from holdfast.clusters.systems.reference.locks.admission import PRIORITIES
from holdfast.clusters.systems.reference.options import KNOWN, read
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Frame
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import ABILITIES, Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.verdicts.specification import TRACE

STATUS_S = 0.3

KEPT = (
    "mutual-exclusion",
    "no-stale-write",
    "no-lost-update",
    "token-order",
    "ownership",
    "loss-notice",
    "grant-notice",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
    "truthful-queries",
    "no-multi-lock-deadlock",
    "applied-once",
    "exactly-once-job",
    "no-false-rejection",
)
DURABLE = ("durable-grants",)
NOTHING: Mapping[str, str] = {}
KEPT_IN_ORDER = ("starvation-freedom", "bounded-bypass", "bounded-wait")
"""promised too unless clients race for a freed lock"""

SHEET = {
    "owner identity": "one attempt: the lock, the attempt's number and its fencing token",
    "acquisition": "a log entry that a majority has on disk before the client gets its response",
    "queue": "FIFO; or racing, where a freed lock goes to the first request",
    "lease": "measured by the leader from the grant; a new leader restarts every lease",
    "renewal": "a log entry; an expiry after it has no effect",
    "token enforcement": "the protected resource rejects a token smaller than the highest it has"
    " seen; a resource without this check accepts late writes",
    "timeout": "an expired wait is cancelled in the log before it is reported",
    "retry": "the same request with the same id, which is applied once",
    "consequence": "a minority neither grants nor expires; without a majority the service stops",
    "clock assumptions": "monotonic clock rates of leader and client differ by less than 0.1%;"
    " wall clocks are not used",
    "evidence": "every node's log, the resource's log and the recorded history",
}


def known_options(
    system: str, options: Mapping[str, str], known: Mapping[str, str], wrong: Sequence[str] = ()
) -> None:
    """Raises UsageError with one line per unknown option, and per line of `wrong`."""
    problems = list(wrong)
    if "trace" in known and options.get("trace", "no") not in ("yes", "no"):
        problems.append(f"system {system!r}: invalid option trace={options['trace']}: yes or no")
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known)}"
            problems.append(f"system {system!r}: unknown option {name!r}; {hint}")
    if problems:
        raise UsageError(*problems)


async def status(address: str, within_s: float = STATUS_S) -> Frame | None:
    """A server's own status, None if it does not respond in time."""
    link = Link(lambda event: None)
    try:
        async with asyncio.timeout(within_s):
            await link.connect(address, within_s)
            return await link.ask({"op": "status"}, within_s)
    except (NotSent, NoAnswer, TimeoutError):
        return None
    finally:
        link.close("asked")


def server_command(
    module: str,
    node: Node,
    place: Place,
    config: Mapping[str, object],
    options: Mapping[str, str],
) -> Command:
    """The command of a server of this package on a node; `config` is passed as JSON."""
    if options.get("trace") == "yes":
        config = {**config, "trace": str(place.run_dir / "logs" / node.name / TRACE)}
    text = json.dumps(config, sort_keys=True)
    return Command(
        argv=(node.python, "-S", "-P", "-m", module, "--config", text),
        log=place.run_dir / "logs" / node.name / "server.log",
        env={"PYTHONPATH": str(place.shared[0])},
    )


class ReferenceSystem(KeepsFiles):
    """A System; `SYSTEM` is the instance. A mode of it has its own name, client and defaults."""

    libraries: Sequence[str] = ()
    ports: Sequence[int] = (DEFAULT_PORT,)
    no_members = "the members of the reference service are fixed when it is deployed"
    no_failover = "its members elect their leader by themselves; it has no command for that"
    no_release = OWN_RELEASE

    def __init__(
        self,
        *,
        name: str = "reference",
        client: str = "holdfast.clusters.systems.reference.factory:client",
        defaults: Mapping[str, str] = NOTHING,
        sheet: Mapping[str, str] = SHEET,
    ) -> None:
        self.client = client
        self._name = name
        self._defaults = defaults
        self._sheet = sheet

    def _options(self, given: Mapping[str, str]) -> dict[str, str]:
        """The options with the defaults of the mode, which are required. Raises UsageError."""
        options = {**self._defaults, **given}
        wrong = read(options)[1]
        wrong += [
            f"invalid option {name}=0: {self._name} requires a value > 0"
            for name in self._defaults
            if options[name] == "0"
        ]
        known_options(self._name, options, KNOWN, wrong)
        return options

    def promises(self, options: Mapping[str, str]) -> Promises:
        """All promises of a lock, under every fault. Raises UsageError."""
        chosen, _ = read(self._options(options))
        kept = (*KEPT, *DURABLE) if chosen.queue == "racing" else (*KEPT, *DURABLE, *KEPT_IN_ORDER)
        return replace(
            LEASE_WITH_TOKENS,
            bound="session" if chosen.session_ns else "lease",
            order=chosen.queue,
            notice_ns=2 * SECOND,
            recovery_ns=5 * SECOND,
            minority_ns=5 * SECOND,
            keeps=dict.fromkeys(kept, ("any",)),
            sheet=self._sheet,
            subtrees=True,
            delay_ns=chosen.delay_ns,
            reasons=True,
            aging=PRIORITIES - 1 if chosen.queue == "priority" else -1,
        )

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """All abilities; priorities only with `queue=priority`."""
        urgent = read(options)[0].queue == "priority"
        return [name for name in ABILITIES if name != "priorities" or urgent]

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """One node of the cluster; its disk is data/<node> in the run's folder."""
        chosen = self._options(options)
        config = {
            "name": node.name,
            "address": node.address,
            "port": DEFAULT_PORT,
            "peers": {server.name: server.address for server in servers},
            "data": str(place.run_dir / "data" / node.name),
            "options": chosen,
            "seed": place.seed,
        }
        module = "holdfast.clusters.systems.reference.service.server"
        return server_command(module, node, place, config, chosen)

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """The index of the last committed command that the node knows of."""
        report = await status(server.address)
        return None if report is None else int(report["commit"])

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the node responds and knows a leader."""
        report = await status(node.address)
        return report is not None and report.get("leader") is not None

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The node that reports to be the leader in the highest term; None if there is none."""
        asked = await asyncio.gather(*(status(server.address) for server in servers))
        leading = [
            Leader(server.name, int(report["term"]))
            for server, report in zip(servers, asked, strict=True)
            if report is not None and report.get("role") == "leader"
        ]
        return max(leading, key=attrgetter("term"), default=None)


SYSTEM = ReferenceSystem()
