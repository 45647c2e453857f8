"""What to do about a property that a run did not exercise, by the reason of its UNKNOWN."""

from __future__ import annotations

from collections.abc import Iterable

CONTEND = "Raise contention: more clients (--clients 8), fewer locks (--locks 1) or a longer run."
OUTLIVE = (
    "Make owners outlive their lease: --nemesis pause:target=holder,every=5s,for=3s with"
    " --lease 1s, so that a paused owner goes on after its lease has expired."
)
MORE_FAULTS = (
    "Give the fault more occasions: a longer run (--time 30s), or more often and for longer"
    " (--nemesis KIND:every=4s,for=2s)."
)
NOTHING = "Nothing in this run: {}."
"""For reasons that lie with the system; more runs of it do not change them."""
FALLBACK = "Run longer (--time 30s), with more clients, or with another seed."

OS_ERRORS = ("Connection refused", "Network is unreachable", "No route to host")
ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        OS_ERRORS,
        "If the server listens on localhost of this machine: with --backend local each client has a"
        " network of its own, whose localhost is another one. Use --backend local-proxy, or let"
        " Holdfast start the server (`server` of the class).",
    ),
    (
        ("failed with an error",),
        "Try the lock by itself: holdfast doctor --system FILE.py:NAME.",
    ),
    (("this system has no fencing tokens",), NOTHING.format("choose a system that issues tokens")),
    (
        ("this system declares no order", "no time for a notice is promised"),
        NOTHING.format("this system does not promise it"),
    ),
    (
        ("tokens do not show which of two clients",),
        NOTHING.format(
            "choose a system whose tokens keep the order of its grants under these faults"
        ),
    ),
    (("no client that waited was granted the lock", "no client that waited with another"), CONTEND),
    (
        ("no client waited for one lock", "no clients waited for each other"),
        "Let clients hold one lock while they ask for another: at least two locks (--locks 2) and"
        " three clients.",
    ),
    (("the checker crashed",), "Please report it with the run directory (holdfast verify RUN)."),
    (
        (
            "no acquire waited",
            "no other client asked",
            "no lock passed",
            "no two that share a lock",
            "no update followed another owner's",
            "no client asked for a lock",
        ),
        CONTEND,
    ),
    (
        ("no renewal or release returned ok",),
        "Look at the call errors (-v): that a hold lasts until its connection ends is seen by an"
        " answered renewal or release only. A release that has released must not raise.",
    ),
    (
        ("by its declaration no answer",),
        "Declare that an answered renewal proves the hold, if it does, or give the lock a lease.",
    ),
    (
        ("no grant has a hold that can be judged",),
        "Request a lease that is longer than a call takes (--lease 2s), or renew it.",
    ),
    (
        ("took effect",),
        "Look up in the table of faults why it had no effect, and whether this backend can inject"
        " it (holdfast doctor).",
    ),
    (
        (
            "of the holder found it holding",
            "in flight during",
            "no hold was open when",
            "no grant during",
            "no grant after the last",
            "took place",
        ),
        MORE_FAULTS,
    ),
    (
        (
            "no stale request to refuse",
            "older owner's write",
            "hold had certainly ended",
            "no client but the holder",
        ),
        OUTLIVE,
    ),
    (
        ("the history may be incomplete",),
        "Look at the logs of the run for the process that failed, and run it again.",
    ),
    (
        ("of the planned rate",),
        "Ask for less (--rate, --clients), or use a faster machine: the clients could not keep up.",
    ),
)
"""Parts of reasons -> advice; the first that occurs counts."""


def advice(reason: str) -> str:
    """What to do about one reason; never empty."""
    return next((what for parts, what in ADVICE if any(p in reason for p in parts)), FALLBACK)


def advices(reasons: Iterable[str]) -> list[str]:
    """Advice on several reasons, each once; the fallback only where there is nothing better."""
    found = list(dict.fromkeys(advice(reason) for one in reasons for reason in one.split("; ")))
    telling = [what for what in found if what != FALLBACK]
    settled = [what for what in telling if what.startswith("Nothing")]
    return settled or telling or found
