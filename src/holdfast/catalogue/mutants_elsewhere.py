"""Planted bugs (rows of `mutants`) in the protected resource and in the majority client."""

from __future__ import annotations

from holdfast.catalogue.mutant_row import Mutant

ELSEWHERE: dict[str, Mutant] = {
    "unchecked-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource checks no tokens",
        breaks="no-stale-write",
        seeds=100,
    ),
    "forgotten-commands": Mutant(
        part="resource",
        area="resource",
        says="a retried write is applied twice",
        breaks="applied-once",
        seeds=300,
    ),
    "tolerant-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource admits the token before the highest one",
        breaks="no-stale-write",
        seeds=100,
    ),
    "forgotten-jobs": Mutant(
        part="resource",
        area="resource",
        says="after a restart the resource has lost its data",
        breaks="exactly-once-job",
        seeds=600,
    ),
    "jealous-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource accepts each token once: the holder's second write is rejected",
        breaks="no-false-rejection",
        seeds=400,
    ),
    "leaky-round": Mutant(
        part="majority",
        area="client",
        says="a client that lost a vote does not release what it was granted",
        breaks="deadlock-freedom",
        seeds=100,
    ),
    "tokens-as-text": Mutant(
        part="resource",
        area="resource",
        says="the resource compares tokens as strings: 10 < 9",
        breaks="no-false-rejection",
        seeds=200,
    ),
    "short-memory": Mutant(
        part="resource",
        area="resource",
        says="the resource remembers the highest token of one key only",
        breaks="no-stale-write",
        seeds=200,
    ),
    "wide-quorum": Mutant(
        part="majority",
        area="client",
        says="quorum too large: half of the servers, rounded up, plus one (3 of 3)",
        breaks="deadlock-freedom",
        seeds=100,
    ),
    "every-vote": Mutant(
        part="majority",
        area="client",
        says="quorum of all replicas: a client needs a grant from every server",
        breaks="deadlock-freedom",
        seeds=100,
    ),
}
