"""Row types of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.harness.core.fault_traits import SIMULATOR_ONLY, Traits
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Nemesis


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One entry: where it is loaded from ("module:attr"), and its summary."""

    entry: str
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadRow:
    """A workload. entry: a module with `client` and `ASKS`, or "module:attr" of a callable object.

    `needs`: abilities of `harness.core.ports` that it requires of a system's client.
    `locks`: with fewer locks it cannot exercise the first property that it asks for.
    """

    entry: str
    says: str
    needs: tuple[str, ...] = ()
    locks: int = 1

    @property
    def client(self) -> str:
        """The entry of what each client runs."""
        return self.entry if ":" in self.entry else f"{self.entry}:client"

    def asks(self) -> Sequence[str]:
        """The properties that it requests; UsageError if it cannot be loaded."""
        place = self.entry.partition(":")
        asked: Sequence[str] = load(self.entry).ASKS if place[1] else load(f"{place[0]}:ASKS")
        return asked


@dataclass(frozen=True, kw_only=True, slots=True)
class NemesisRow:
    """A kind of fault: its entry and summary. What it does, the nemesis itself declares."""

    entry: str
    says: str

    @property
    def traits(self) -> Traits:
        """The traits of the nemesis; UsageError if it cannot be loaded."""
        made: Nemesis = load(self.entry)
        return made.traits

    @property
    def only(self) -> str:
        """The one backend that supports it, "" for all."""
        return "sim" if self.traits.simulator == SIMULATOR_ONLY else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemRow:
    """A lock service: its entry, summary, default and maximum number of servers.

    `simulated`: the entry of its simulated server, "" if it has none; `real`: the parts that are
    the same code there and the parts that are not, "" if all is the same.
    `clients_simulated`: it has no server, and its clients run in the simulator as they are.
    `specification`: the entry of a `Specification` (`harness.verdicts.specification`), by which the
    steps of its servers are validated; "" for none. `recorded`: the entry that reads them where its
    servers are processes.
    `peers`: its servers communicate. If not, a partition separates clients from servers.
    `known`: (property, kind of finding) that it promises and violates by design.
    `lease_ns`: the lease of a plan that names none, 0 for that of all other systems.
    """

    entry: str
    says: str
    nodes: int
    most: int
    simulated: str = ""
    real: str = ""
    specification: str = ""
    recorded: str = ""
    peers: bool = True
    known: tuple[tuple[str, str], ...] = ()
    lease_ns: int = 0
    clients_simulated: bool = False

    @property
    def runs_in_simulator(self) -> bool:
        """Whether it runs in the simulator."""
        return bool(self.simulated) or self.clients_simulated

    @property
    def real_in_simulator(self) -> str:
        """The parts that are the real code in the simulator, "" if it does not run there."""
        if not self.runs_in_simulator:
            return ""
        return self.real or ("servers and clients" if self.simulated else "clients")

    @property
    def in_simulator(self) -> str:
        """Whether it runs in the simulator, and which parts are the real code."""
        if not self.runs_in_simulator:
            return "no"
        its = "" if self.real else "its "
        return f"yes; real there: {its}{self.real_in_simulator}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendRow:
    """A backend: its entry, its precheck, and what a plan on it can have.

    `precheck`: entry of a function that returns why it cannot run here. `prefix`: entry of one
    that returns words to put before the driver's command line, "" for none. `instead`: the
    backend to use where this one cannot run, "" for none. `disks`: entry of a function that
    returns why servers cannot have disks of their own here, "" where they never can; the prefix
    then takes `disks=True`. `options`: entry of the options of its
    own, name -> default, "" for none. `leftovers`: entry of a `Source`
    (`clusters.backends.leftovers`) of what its runs leave beside processes of this host, "" for
    nothing.

    `virtual_time`: its entry carries out a manifest in the calling process, on virtual time; the
    entry of any other is a class, whose run has a driver process.
    `hosts_file`: it needs a file that lists machines. `container_engine`: it needs Docker.
    `programs_here`: servers are programs that are installed on this machine.
    `clients_here`: clients are processes of this machine, which can do faults to themselves.
    `networks`: each node has a network of its own, on which its packets can be hit.
    `client_networks`: each client has a network of its own, on which its connections can be hit.
    `most_nodes`: servers, clients, resource and probe of one run; 0: no limit.
    """

    entry: str
    says: str
    precheck: str
    prefix: str = ""
    instead: str = ""
    options: str = ""
    disks: str = ""
    leftovers: str = ""
    virtual_time: bool = False
    hosts_file: bool = False
    container_engine: bool = False
    programs_here: bool = False
    clients_here: bool = False
    networks: bool = False
    client_networks: bool = False
    most_nodes: int = 0
