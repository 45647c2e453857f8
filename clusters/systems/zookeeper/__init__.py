"""ZooKeeper locks as commonly used: ephemeral sequential nodes, through unmodified kazoo."""

from holdfast.harness.core.clock import MILLISECOND

PORT = 2181
FOLLOW_PORT = 2888
ELECTION_PORT = 3888
LONGEST_MS = 60_000


def session_ns(lease_ns: int, tick_ms: int) -> int:
    """The session timeout that a server grants if this lease is requested."""
    asked_ms = -(-lease_ns // MILLISECOND)
    return max(2 * tick_ms, min(asked_ms, LONGEST_MS)) * MILLISECOND
