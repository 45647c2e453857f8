"""What durable-grants means, and the kinds of its findings."""

from __future__ import annotations

from holdfast.harness.core.verdict import Kind, Property, Severity

PROPERTY = Property(
    place=80,
    severity=Severity.CRITICAL,
    sentence=("an acknowledged grant, release or token survives a power loss or an operation"),
    kinds={
        "lost-grant": Kind(
            name="Acknowledged grant lost",
            mechanism="forgotten",
            means=(
                "a power loss or an operation on the servers removed a grant that the"
                " service had acknowledged, and it granted the lock to another client (split"
                " brain)"
            ),
            remedy=(
                "Sync the grant to disk before the response (fsync, not only a write), on a"
                " majority of the servers; check what the configured durability mode really"
                " promises. After a restore: end all sessions and wait one lease before"
                " clients are let in."
            ),
        ),
        "token-after-power-loss": Kind(
            name="Token issued again after a power loss",
            mechanism="token",
            means=(
                "a power loss set back the token counter, so a later owner carries a token"
                " that is not larger than an earlier one"
            ),
            remedy=(
                "Sync the counter before a token leaves the server, or begin after every"
                " restart far beyond the largest token that can have been issued."
            ),
        ),
        "token-after-operation": Kind(
            name="Token issued again after an operation",
            mechanism="token",
            means=(
                "a restore or a rollback set back the token counter, so a later owner"
                " carries a token that is not larger than an earlier one, and a resource"
                " that compares tokens rejects the current owner or admits an outdated one"
            ),
            remedy=(
                "Advance the counter, before clients are let in, by at least the number"
                " that the finding states: the age of the backup times the rate of grants."
                " etcd: `etcdutl snapshot restore --bump-revision N --mark-compacted` (3.6);"
                " older versions have no such option: write N keys to the restored cluster"
                " first. Redis: INCRBY of each token counter."
            ),
        ),
        "revived-hold": Kind(
            name="Released hold revived",
            mechanism="forgotten",
            means=(
                "a power loss or an operation on the servers undid an acknowledged release,"
                " so the former owner holds again"
            ),
            remedy=(
                "Sync a release before its response, or bind holds to sessions that end"
                " with a restart. After a restore: revoke all leases before clients are let"
                " in."
            ),
        ),
        "grant-before-sync": Kind(
            name="Grant before its sync",
            mechanism="forgotten",
            means=(
                "the service acknowledged a grant while no disk of a majority took a write,"
                " so a power loss would have undone it"
            ),
            remedy=("Send the response only after the sync of the record that it depends on."),
        ),
    },
)
