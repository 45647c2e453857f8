"""What there is to name on the command line: literal tables, one row per entry, loaded by name."""

from __future__ import annotations

from holdfast.catalogue.rows import BackendRow, Row, SystemRow

_S = "holdfast.clusters.systems"
SYSTEMS: dict[str, SystemRow] = {
    "reference": SystemRow(
        entry=f"{_S}.reference.system:SYSTEM",
        says="replicated by consensus; leases, FIFO queue, fencing tokens, loss notices",
        nodes=3,
        most=9,
        simulated=f"{_S}.reference.service.simulation:serve",
    ),
    "chubby": SystemRow(
        entry=f"{_S}.chubby.system:SYSTEM",
        says="the same service with sessions, lock-delay and sequencers, as Chubby has them",
        nodes=3,
        most=9,
        simulated=f"{_S}.reference.service.simulation:serve",
    ),
    "single": SystemRow(
        entry=f"{_S}.single.system:SYSTEM",
        says="one lease server in memory: a single point of failure on purpose",
        nodes=1,
        most=1,
        simulated=f"{_S}.single.simulated:serve",
        peers=False,
    ),
    "majority": SystemRow(
        entry=f"{_S}.majority.system:SYSTEM",
        says="a vote over independent lease servers without consensus: broken by design",
        nodes=3,
        most=9,
        simulated=f"{_S}.single.simulated:serve",
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
        says="a lease and a create-revision transaction, or the server's own Lock call",
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
        says="the same on a primary with a replica, which sentinels promote",
        nodes=5,
        most=9,
    ),
    "redlock": SystemRow(
        entry=f"{_S}.redlock.system:SYSTEM",
        says="the published vote over independent Redis servers",
        nodes=5,
        most=9,
        simulated=f"{_S}.redlock.simulated:serve",
        real="the client, its algorithm and wire format; the servers are key-value servers of ours"
        " whose keys expire by their own wall clocks, not redis-server",
        peers=False,
    ),
    "postgres-advisory": SystemRow(
        entry=f"{_S}.postgres.advisory.system:SYSTEM",
        says="PostgreSQL advisory locks, held by a session or a transaction, through psycopg",
        nodes=1,
        most=1,
        peers=False,
    ),
    "postgres-row": SystemRow(
        entry=f"{_S}.postgres.row.system:SYSTEM",
        says="SELECT ... FOR UPDATE on PostgreSQL, through psycopg",
        nodes=1,
        most=1,
        peers=False,
    ),
    "mariadb-row": SystemRow(
        entry=f"{_S}.mariadb.system:SYSTEM",
        says="SELECT ... FOR UPDATE on MariaDB, through PyMySQL",
        nodes=1,
        most=1,
        peers=False,
    ),
    "dynamodb": SystemRow(
        entry=f"{_S}.dynamodb.system:SYSTEM",
        says="conditional puts and heartbeats on a record version, against an emulator",
        nodes=1,
        most=1,
        peers=False,
    ),
    "cockroachdb": SystemRow(
        entry=f"{_S}.cockroachdb.system:SYSTEM",
        says="SELECT ... FOR UPDATE on a CockroachDB that you deployed (--set at=HOST:PORT)",
        nodes=0,
        most=0,
    ),
    "nats-kv": SystemRow(
        entry=f"{_S}.nats.system:SYSTEM",
        says="a key of a NATS JetStream bucket that ages with it, through unmodified nats-py",
        nodes=1,
        most=5,
    ),
    "program": SystemRow(
        entry=f"{_S}.program.system:SYSTEM",
        says="a client program of yours, in any language, over JSON lines (--client)",
        nodes=0,
        most=0,
    ),
    "none": SystemRow(
        entry=f"{_S}.controls.none.system:SYSTEM",
        says="a control: no lock at all",
        nodes=0,
        most=0,
    ),
    "cas": SystemRow(
        entry=f"{_S}.controls.cas.system:SYSTEM",
        says="a control: no lock, but a resource that compares and swaps",
        nodes=0,
        most=0,
    ),
    "idempotent": SystemRow(
        entry=f"{_S}.controls.idempotent.system:SYSTEM",
        says="a control: no lock, but commands that take effect once however often they come",
        nodes=0,
        most=0,
    ),
}

_B = "holdfast.clusters.backends"
BACKENDS: dict[str, BackendRow] = {
    "local": BackendRow(
        entry=f"{_B}.local.backend:LocalBackend",
        says="processes of this machine, each node a network namespace of its own",
        precheck=f"{_B}.local.backend:precheck",
        prefix=f"{_B}.local.backend:launch_prefix",
        instead="local-proxy",
    ),
    "local-proxy": BackendRow(
        entry=f"{_B}.local.proxy_backend:LocalProxyBackend",
        says="the same without network namespaces: loopback addresses, a proxy for every link",
        precheck=f"{_B}.local.proxy_backend:precheck",
        prefix="",
        instead="",
    ),
    "docker": BackendRow(
        entry=f"{_B}.docker.backend:DockerBackend",
        says="one container per node, on an engine of this host",
        precheck=f"{_B}.docker.backend:precheck",
        prefix="",
        instead="",
    ),
    "ssh": BackendRow(
        entry=f"{_B}.ssh.backend:SshBackend",
        says="network namespaces on other machines, reached over ssh (--hosts FILE)",
        precheck=f"{_B}.ssh.backend:precheck",
        prefix="",
        instead="",
    ),
    "sim": BackendRow(
        entry=f"{_B}.sim.run:simulate",
        says="one process on virtual time: the same seed gives the same history, bit for bit",
        precheck=f"{_B}.sim.run:precheck",
        prefix="",
        instead="",
    ),
}

HOSTS = f"{_B}.ssh.hosts_file:read"
"""What reads a hosts file."""

_W = "holdfast.workloads"
WORKLOADS: dict[str, Row] = {
    "critical-section": Row(
        entry=f"{_W}.kinds.critical_section",
        says="acquire, write several times without looking at the lease again, release",
    ),
    "lost-update": Row(
        entry=f"{_W}.kinds.lost_update", says="read, think, write back: what a lock is bought for"
    ),
    "renewal": Row(
        entry=f"{_W}.kinds.renewal",
        says="holds far longer than the lease, renewed at a third of it",
    ),
    "paced": Row(
        entry=f"{_W}.kinds.paced", says="asks at the times that a rate says, or without a pause"
    ),
    "try-lock": Row(
        entry=f"{_W}.kinds.try_lock", says="never waits: asks, works if it got the lock"
    ),
    "read-write": Row(
        entry=f"{_W}.kinds.read_write",
        says="readers go together and read, a writer goes alone",
        needs=("shared",),
    ),
    "semaphore": Row(
        entry=f"{_W}.kinds.semaphore", says="takes permits (--set permits=2)", needs=("permits",)
    ),
    "hierarchy": Row(
        entry=f"{_W}.kinds.hierarchy",
        says="locks subtrees, writes to leaves below",
        needs=("subtrees",),
    ),
    "reentrant": Row(
        entry=f"{_W}.kinds.reentrant", says="goes in again where it holds", needs=("reentry",)
    ),
    "queries": Row(
        entry=f"{_W}.kinds.queries",
        says="asks who holds and who waits before whom, and acquires if nobody held since",
        needs=("queries", "condition"),
    ),
    "sequencers": Row(
        entry=f"{_W}.kinds.sequencers",
        says="asks whether its holds are in force",
        needs=("sequencers",),
    ),
    "duplicate-request": Row(
        entry=f"{_W}.kinds.duplicate_request", says="sends writes twice, as after a timeout"
    ),
    "singleton-job": Row(
        entry=f"{_W}.kinds.singleton_job",
        says="one of many does each job, in turn (--set mark=1: marked as done after its effect)",
    ),
    "leader-election": Row(
        entry=f"{_W}.kinds.leader_election",
        says="whoever holds leads, for long; tokens are its terms",
    ),
    "crowd": Row(
        entry=f"{_W}.kinds.crowd", says="many clients that all ask alike and hold for a moment"
    ),
    "retry-storm": Row(
        entry=f"{_W}.kinds.retry_storm",
        says="most try again at once (--set backoff_ms=20: by chance later), a few wait",
    ),
    "slow-dependency": Row(
        entry=f"{_W}.kinds.slow_dependency",
        says="holds across a call that takes leases at times (--set renews=1: renews meanwhile)",
    ),
    "shared-client-id": Row(
        entry=f"{_W}.kinds.shared_client_id",
        says="owners of one name that release and renew once more what another has by then",
    ),
    "many-locks": Row(
        entry=f"{_W}.kinds.many_locks",
        says="holds one lock and asks for another, in any order (--set ordered=1: in one)",
    ),
    "priority-flood": Row(
        entry=f"{_W}.kinds.priority_flood",
        says="urgent requests without end, and a few patient ones (--set queue=priority)",
        needs=("priorities",),
    ),
    "manual-recovery": Row(
        entry=f"{_W}.kinds.manual_recovery",
        says="an owner that hangs and is renewed for ever, and an operator who frees the lock",
        needs=("queries", "force-unlock"),
    ),
    "abandoned": Row(entry=f"{_W}.kinds.abandoned", says="owners that die holding"),
}
"""A workload's entry is its module: `client` and `ASKS` are found in it."""

PROBE = f"{_W}.probe:client"
RESOURCE_MAIN = f"{_W}.resource.server"
RESOURCE_CLIENT = f"{_W}.resource.client:connect"
RESOURCE_STORE = f"{_W}.resource.server:store_type"
RESOURCE_SERVER = f"{_W}.resource.server:Server"
RESOURCES: dict[str, str] = {
    "fenced": "admits a token that is not smaller than the highest it has admitted",
    "strict": "refuses besides a second attempt with an equal token",
    "unfenced": "admits everybody",
    "cas": "admits everybody, but no write that names a version which is no longer the newest",
    "idempotent": "admits everybody; a command that its key names it carries out once",
}
RESOURCES_WITH_TOKENS = ("fenced", "strict")

_N = "holdfast.nemesis"
NEMESES: dict[str, Row] = {
    "partition": Row(
        entry=f"{_N}.kinds.partition:NEMESIS", says="packets between nodes are dropped"
    ),
    "pause": Row(entry=f"{_N}.kinds.pause:NEMESIS", says="processes are stopped and later resumed"),
    "kill": Row(entry=f"{_N}.kinds.kill:NEMESIS", says="processes are killed and started again"),
    "clock": Row(
        entry=f"{_N}.kinds.clock:NEMESIS", says="a process's wall clock steps, drifts, strobes"
    ),
    "reply-loss": Row(
        entry=f"{_N}.kinds.reply_loss:NEMESIS",
        says="a reply is swallowed after the server did what it was asked, then a reset",
    ),
    "reset": Row(
        entry=f"{_N}.kinds.reset:NEMESIS",
        says="a client's connection is reset before a request arrives",
    ),
    "delay": Row(entry=f"{_N}.kinds.delay:NEMESIS", says="replies to a client take longer"),
    "black-hole": Row(
        entry=f"{_N}.kinds.black_hole:NEMESIS", says="a client's connections swallow everything"
    ),
    "hang-up": Row(
        entry=f"{_N}.kinds.hang_up:NEMESIS",
        says="a client's connections are ended from the server's side, idle or not",
    ),
    "cancel": Row(
        entry=f"{_N}.kinds.cancel:NEMESIS",
        says="a running call of a client is cancelled by its caller",
    ),
    "stall": Row(
        entry=f"{_N}.kinds.stall:NEMESIS",
        says="the thread that makes a client's calls stands still",
    ),
    "fork": Row(
        entry=f"{_N}.kinds.fork:NEMESIS",
        says="a client's process forks while it holds; its child ends, or lives on",
    ),
    "slow-links": Row(
        entry=f"{_N}.kinds.slow_links:NEMESIS",
        says="frames between nodes take longer, in one direction or both (simulator only)",
        only="sim",
    ),
    "freeze": Row(
        entry=f"{_N}.kinds.freeze:NEMESIS",
        says="processes stop in the middle of a send, which leaves late (simulator only)",
        only="sim",
    ),
    "freeze-write": Row(
        entry=f"{_N}.kinds.freeze_write:NEMESIS",
        says="servers stop in the middle of a write to disk (simulator only)",
        only="sim",
    ),
    "torn-write": Row(
        entry=f"{_N}.kinds.torn_write:NEMESIS",
        says="servers die in a write to disk, of which a part stays (simulator only)",
        only="sim",
    ),
}

_C = "holdfast.checkers"
CHECKERS: dict[str, str] = {
    "mutual-exclusion": f"{_C}.properties.mutual_exclusion:check",
    "no-stale-write": f"{_C}.properties.no_stale_write:check",
    "no-expired-write": f"{_C}.properties.no_expired_write:check",
    "no-lost-update": f"{_C}.properties.no_lost_update:check",
    "applied-once": f"{_C}.properties.applied_once:check",
    "exactly-once-job": f"{_C}.properties.exactly_once_job:check",
    "token-order": f"{_C}.properties.token_order:check",
    "ownership": f"{_C}.properties.ownership:check",
    "loss-notice": f"{_C}.properties.loss_notice:check",
    "grant-notice": f"{_C}.properties.grant_notice:check",
    "deadlock-freedom": f"{_C}.properties.deadlock_freedom:check",
    "orphan-freedom": f"{_C}.properties.orphan_freedom:check",
    "no-hung-request": f"{_C}.properties.no_hung_request:check",
    "no-multi-lock-deadlock": f"{_C}.properties.no_multi_lock_deadlock:check",
    "starvation-freedom": f"{_C}.properties.starvation_freedom:check",
    "bounded-bypass": f"{_C}.properties.bounded_bypass:check",
    "no-false-rejection": f"{_C}.properties.no_false_rejection:check",
    "bounded-wait": f"{_C}.properties.bounded_wait:check",
    "truthful-queries": f"{_C}.properties.truthful_queries:check",
}
SIM_OPTIONS = f"{_B}.sim.options:DEFAULTS"
SIM_KEEP = f"{_B}.sim.outcome:keep"
SIM_WRITTEN = f"{_B}.sim.outcome:written"
SIM_UNGUARD = f"{_B}.sim.values:unguard"
EVIDENCE = f"{_C}.evidence.summary:evidence"
DRAWN = f"{_C}.evidence.plot_data:drawn"

_M = f"{_C}.linearizability"
MODELS: dict[str, Row] = {
    "mutex": Row(entry=f"{_M}.locks:mutex", says="a lock that anybody may free"),
    "owner-mutex": Row(entry=f"{_M}.locks:owner_mutex", says="a lock that its holder alone frees"),
    "lease-mutex": Row(
        entry=f"{_M}.locks:lease_mutex",
        says="a lock whose holds may run out; an ok release says that its hold had not",
    ),
    "reentrant": Row(
        entry=f"{_M}.reentrant:reentrant", says="a lock that lets its holder in again"
    ),
    "fenced": Row(
        entry=f"{_M}.locks:fenced", says="an owner-mutex whose grants carry growing tokens"
    ),
    "semaphore:N": Row(entry=f"{_M}.semaphore:semaphore", says="N permits, as in semaphore:3"),
    "rw": Row(entry=f"{_M}.read_write:read_write", says="readers go together, a writer goes alone"),
    "register": Row(entry=f"{_M}.registers:register", says="one value, read and written"),
    "cas-register": Row(
        entry=f"{_M}.registers:cas_register", says="a register with compare-and-set"
    ),
    "kv": Row(entry=f"{_M}.kv:kv", says="texts by key: put, append, get"),
}
"""What a history from elsewhere can be judged as."""
