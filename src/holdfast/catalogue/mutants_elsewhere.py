"""The rows of `mutants` about bugs in the protected resource and in the majority vote."""

from __future__ import annotations

from holdfast.catalogue.mutant_row import Mutant

ELSEWHERE: dict[str, Mutant] = {
    "unchecked-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource looks at no token",
        breaks="no-stale-write",
        seeds=100,
    ),
    "forgotten-commands": Mutant(
        part="resource",
        area="resource",
        says="a write that is sent again is applied again",
        breaks="applied-once",
        seeds=300,
    ),
    "tolerant-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource admits a token that is older by one than the newest it has seen",
        breaks="no-stale-write",
        seeds=100,
    ),
    "forgotten-jobs": Mutant(
        part="resource",
        area="resource",
        says="after a restart the resource no longer knows what was written",
        breaks="exactly-once-job",
        seeds=600,
    ),
    "jealous-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource takes each token once: the holder's second write is refused",
        breaks="no-false-rejection",
        seeds=400,
    ),
    "leaky-round": Mutant(
        part="majority",
        area="client",
        says="a client gives nothing back of a vote that it lost",
        breaks="deadlock-freedom",
        seeds=100,
    ),
    "tokens-as-text": Mutant(
        part="resource",
        area="resource",
        says="the resource compares tokens as words: 10 is older than 9",
        breaks="no-false-rejection",
        seeds=200,
    ),
    "short-memory": Mutant(
        part="resource",
        area="resource",
        says="the resource knows the newest token of one key only",
        breaks="no-stale-write",
        seeds=200,
    ),
    "wide-quorum": Mutant(
        part="majority",
        area="client",
        says="a client wants half of the servers, rounded up, and one more: of three all",
        breaks="deadlock-freedom",
        seeds=100,
    ),
    "every-vote": Mutant(
        part="majority",
        area="client",
        says="a client waits for a yes from every server",
        breaks="deadlock-freedom",
        seeds=100,
    ),
}
