"""Formulas of lock engineering that a report evaluates with the measurements of a run."""

from __future__ import annotations

from math import comb


def lease_margin(
    lease: float, renewal: float, clock_error: float, network: float, pause: float
) -> float:
    """M = T_L - (T_r + 2e + d_n + t_p), in the unit of its terms. A sanity check, not a proof.

    Lease; interval of renewals; clock uncertainty, counted for both sides; network delay; longest
    pause. Negative: a lease can expire while its holder believes in it.
    """
    return lease - (renewal + 2 * clock_error + network + pause)


def utilisation(arrivals_per_s: float, hold_s: float) -> float:
    """rho = lambda * T_h of a lock that serves one client at a time; at >= 1 its queue grows."""
    return arrivals_per_s * hold_s


def quorum_failure(nodes: int, down: float) -> float:
    """The probability that no majority of `nodes` is up if each is down with probability `down`.

    sum over k >= ceil(N/2) of C(N,k) p^k (1-p)^(N-k); ValueError unless 0 <= down <= 1.
    """
    if not 0 <= down <= 1:
        raise ValueError(f"a probability is between 0 and 1, not {down}")
    lost = range((nodes + 1) // 2, nodes + 1)
    return sum(comb(nodes, k) * down**k * (1 - down) ** (nodes - k) for k in lost)
