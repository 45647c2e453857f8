"""Consensus: replication of the lock service's log, after Raft."""
