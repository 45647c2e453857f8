"""Where the rooms meet: the protocols between a run and its systems, backends and nemeses.

Standard library only, for the client side travels. Each port has at most five methods; what only
some can do is a port of its own.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Op, Status, Terms
from holdfast.harness.core.verdict import Promises


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A place with an address of its own: "n1" (server), "c1" (client), "resource", "probe"."""

    name: str
    role: str
    address: str = ""
    python: str = "python3"


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A container image to start a command in; `data` is a folder of ours, seen there as `at`."""

    name: str
    data: Path
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A process to start on a node: no shell, an explicit environment, its own log file.

    image    what to start it in, with argv as the words that its entry point is given (none: its
             own) and `env` beside its own environment; None for the node itself
    prelude  a word of argv that is gone once it has exec'd the program it is there for, "" if argv
             is that program
    nobody   it refuses to be root, so that it is to be the user `nobody` wherever it would be root
    """

    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    prelude: str = ""
    nobody: bool = False
    image: Image | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One planned fault. Times are ns after the start of the run.

    do       name of the nemesis that does it: "partition", "pause", "kill", "clock"
    target   a role ("leader", "holder", "one", "majority", "minority", "all", "resource") or node
             names joined by "+"; resolved when the fault is due
    params   what else the nemesis wants: shape, step, rate ... all drawn before the run
    """

    id: str
    do: str
    target: str
    at_ns: int
    for_ns: int
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What a nemesis may know when its fault is due: who is where, who leads, who holds."""

    nodes: Sequence[Node]
    leader: str | None
    holders: Sequence[str]
    """nodes whose client holds a lock now, the one with most of its lease left first"""
    down: Sequence[str] = ()
    """nodes whose process another fault has killed"""
    peers: bool = True
    """whether the servers talk to each other; if not, only clients can be cut off from them"""

    def named(self, role: str) -> list[Node]:
        """The nodes of one role, in name order as deployed."""
        return [node for node in self.nodes if node.role == role]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request to the fault agent: `do` and its arguments, as `nemesis/agent` documents them."""

    do: str
    args: Mapping[str, Any]


class Nemesis(Protocol):
    """One kind of fault: pure decisions, done elsewhere by the agent or the simulator."""

    def draw(
        self, rng: random.Random, options: Mapping[str, str], span_ns: int
    ) -> Sequence[Fault]: ...

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]: ...


class Backend(Protocol):
    """Places for processes. `open` gives every node an address; `close` leaves nothing behind."""

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]: ...

    async def start(self, node: str, command: Command) -> int: ...

    def agent_argv(self) -> Sequence[str]: ...

    async def close(self) -> None: ...


class Namespaces(Protocol):
    """Says through which process the fault agent finds a node's network namespace."""

    def holder_pid(self, node: str) -> int:
        """Host pid of a process that holds the namespace as long as the node exists."""
        ...


class Vantage(Protocol):
    """Says under which addresses one node reaches the others."""

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes in deploy order, with the addresses by which `node` reaches them."""
        ...


class Fabric(Backend, Namespaces, Vantage, Protocol):
    """What a run needs of a backend: places, and both abilities above."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a backend needs to know of the run it serves.

    run_dir   readable and writable under the same path on every node
    shared    folders readable under the same path on every node: the code, the libraries
    label     marks every container, network and process of the run
    seed      of the run, for what a server draws by itself
    hosts     what the hosts file says, where nodes are on other machines
    """

    run_id: str
    run_dir: Path
    shared: Sequence[Path]
    label: str
    seed: int = 0
    hosts: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Distant(Protocol):
    """A backend whose nodes share neither files nor processes nor a clock with the driver."""

    def place_of(self, node: str) -> Place:
        """The run as the node's host has it."""
        ...

    async def put(self, node: str, name: str, text: str) -> None:
        """Writes a small file under the run's folder there."""
        ...

    def alive(self, node: str) -> bool:
        """Whether the node's process runs, as far as its host was heard."""
        ...

    def tell_phase(self, phase: int) -> None:
        """Tells every host how far the run is."""
        ...

    def shift_ns(self, node: str) -> int:
        """What to add to the node's stamps for the driver's clock, about."""
        ...


@runtime_checkable
class Hosting(Protocol):
    """What else such a backend does: it acts through agents of its own, and may lose a host."""

    async def agents(self) -> Any:
        """All fault agents as one: `ask` and `close`, as AgentLink has them."""
        ...

    def system(self, entry: str, system: System) -> System:
        """The system, its `ready` and `leader` asked from where its servers can be reached."""
        ...

    async def command(
        self, system: str, node: Node, servers: Sequence[Node], options: Mapping[str, str]
    ) -> Command:
        """What `System.command` gives on the node's host, where it may make folders."""
        ...

    async def refresh(self) -> None:
        """Fetches what was recorded until now."""
        ...

    async def until_lost(self) -> None:
        """Returns never; raises EnvironmentFailed as soon as a host is lost."""
        ...


class System(Protocol):
    """A lock service under test, as the driver sees it.

    `client` names, as "module:attr", a factory ClientSetup -> LockClient (or BlockingLockClient)
    that workers load; `libraries` are the pinned packages which that client imports; `ports` are
    the TCP ports on which its servers listen.
    """

    client: str
    ports: Sequence[int]
    libraries: Sequence[str]

    def promises(self, options: Mapping[str, str]) -> Promises: ...

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command: ...

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool: ...

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> str | None: ...


@runtime_checkable
class Simulated(Protocol):
    """A System whose servers' simulation is not told by the JSON at the end of their command line.

    `simulated_config` is what `SystemRow.simulated` gets of one server instead.
    """

    def simulated_config(self, node: Node, options: Mapping[str, str]) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSetup:
    """What a lock client is told when its worker starts.

    servers   (node name, address) in deploy order
    seed      of the run, for the adapter's own streams of chance (harness.seeds)
    tell      records what the client learns unasked: tell(op, attempt, lock, res, text, token).
              `res` per `events.COLUMNS`; `text` is the reason of LOST and CLOSED
    """

    process: int
    name: str
    servers: Sequence[tuple[str, str]]
    lease_ns: int
    options: Mapping[str, str]
    tell: Tell
    seed: int = 0


class Tell(Protocol):
    """Records a row that no call asked for; stamps it when it is called."""

    def __call__(
        self, op: Op, *, attempt: int, lock: str, res: int = 0, text: str = "", token: int = -1
    ) -> None: ...


class LockClient(Protocol):
    """One client of a lock service, as every system offers it.

    Never raises for what a service may do: every outcome is an `Answer`, decided in the adapter's
    one table from error to meaning; what is not in that table is INFO. `wait_ns` 0 is a try,
    -1 has no bound. `ttl_ns` is the lease asked for. Cancelling a call is allowed at any time.
    """

    async def open(self) -> None: ...

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer: ...

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer: ...

    async def release(self, grant: Grant) -> Answer: ...

    async def close(self) -> None: ...


class TermsLockClient(Protocol):
    """The ability to ask on terms: shared, for permits, again, conditionally, with a priority.

    A system says in `abilities` which of `ABILITIES` its client has.
    """

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer: ...


class QueryLockClient(Protocol):
    """The ability to ask who holds, how many wait, and where an attempt stands in the queue."""

    async def query(self, lock: str, *, attempt: int) -> Queried: ...


class SequencerLockClient(Protocol):
    """The ability to ask whether a hold is in force. OK: it is. FAIL: it is not. INFO: unknown."""

    async def check(self, grant: Grant) -> Answer: ...


class OperatorLockClient(Protocol):
    """The ability to end the hold that has a token, whoever has it. FAIL: surely nothing ended."""

    async def force(self, lock: str, *, token: int) -> Answer: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Queried:
    """What a service said of a lock. outcome OK, or INFO where it did not answer.

    token, renewals   of the hold in force; NO_TOKEN: nobody holds
    place             how many wait before the attempt; -1: it does not wait
    length            how many wait for the lock; -1 where the service does not say
    owner, metadata   whose hold it is, and the text that it carries; "" for none
    held_ns, left_ns  how long it has lasted and how much of its lease is left, by the service's
                      own clock at some moment of the call; None where the service cannot tell
    """

    outcome: Status
    token: int = NO_TOKEN
    renewals: int = 0
    place: int = -1
    length: int = -1
    owner: str = ""
    metadata: str = ""
    held_ns: int | None = None
    left_ns: int | None = None
    error: str = ""


ABILITIES: dict[str, str] = {
    "shared": "readers hold together, a writer alone",
    "permits": "semaphores: so many may hold at once",
    "reentry": "an owner is let in again",
    "condition": "granted only if nobody held since",
    "queries": "who holds, how many wait, and who waits before whom",
    "priorities": "the more urgent goes first",
    "force-unlock": "an operator ends whatever hold it names",
    "sequencers": "whether a hold, shown as one word, is in force",
    "subtrees": "a lock called /a/b stands for all paths below it",
}
"""What a system may be able to do beyond the five methods of a LockClient."""


CALL, CLIENT = "call", "client"


class WiredLockClient(Protocol):
    """The ability to have its calls narrowed to when requests left and answers came.

    wire  how it speaks, over stream sockets of this process that Python made, and over no others.
          CALL: all that a call asks is sent from within it, in its thread or its task, on sockets
          that bring all its answers. CLIENT: from anywhere, and it is the process's only client.
    """

    wire: str


class Able(Protocol):
    """A System that can do more: `abilities(options)` names what, of ABILITIES."""

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]: ...


class BlockingLockClient(Protocol):
    """The same over a synchronous library; `blocking = True` gives it a thread of its own."""

    blocking: bool

    def open(self) -> None: ...

    def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer: ...

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer: ...

    def release(self, grant: Grant) -> Answer: ...

    def close(self) -> None: ...


ClientFactory = Callable[[ClientSetup], LockClient | BlockingLockClient]
Coroutine = Callable[..., Awaitable[None]]
