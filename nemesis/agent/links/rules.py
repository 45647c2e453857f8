"""nft rules of link faults: what each act does to packets, and the counters that prove it.

A rule acts on the packets that a node receives from one address (act `neighbour`: that it sends to
one). Its counter counts the packets that were changed or dropped, and no others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.nemesis.agent.nft import LINK_TABLE, Namespace

ALL_PPM = 1_000_000
OTHER_BYTE = "0xff"
"""What a corrupted byte becomes. A byte that has this value already is neither changed nor counted;
no UTF-8 text has it."""
HEADERS = (8, 5)
"""Length of a TCP header of a segment with data, in 32-bit words: with timestamps, and without."""
ANSWERS = {"reset": "reject with tcp reset", "drop": "drop"}
"""How a new connection is refused: at once, or by silence until the caller's timeout."""
PRIORITY = -290
"""After the cuts: a packet that is cut is not counted here."""
COUNTED = re.compile(r"ip [sd]addr ([0-9.]+) .*?counter packets ([0-9]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How an act is done; `request_forms` describes them. address: of the node that receives;
    ports: "theirs . ours" of its open connections, joined by commas."""

    share_ppm: int = ALL_PPM
    by_ns: int = 0
    jitter_ns: int = 0
    byte: int = 1
    bytes: int = 576
    rate: int = 0
    answer: str = "reset"
    address: str = ""
    ports: str = ""


Rules = Iterable[tuple[str, str]]
"""Conditions before the counter of a rule, and its verdict."""


def _share(how: Settings) -> str:
    return "" if how.share_ppm >= ALL_PPM else f"numgen random mod {ALL_PPM} < {how.share_ppm}"


def _corrupt(how: Settings) -> Rules:
    # The byte must differ: a counter that counts what was set to the value it had is no evidence.
    for words in HEADERS:
        bits = f"@th,{words * 32 + (how.byte - 1) * 8},8"
        yield f"tcp doff {words} {bits} != {OTHER_BYTE} {_share(how)}", f"{bits} set {OTHER_BYTE}"


RULES: Mapping[str, Callable[[Settings], Rules]] = {
    "loss": lambda how: [(_share(how), "drop")],
    # A copy is received over the loopback device, where it is not copied again.
    "duplicate": lambda how: [(f'iifname != "lo" {_share(how)}', f"dup to {how.address}")],
    "corrupt": _corrupt,
    "mtu": lambda how: [(f"meta length > {how.bytes}", "drop")],
    "zero-window": lambda how: [("tcp window != 0", "tcp window set 0")],
    "refuse": lambda how: [("tcp flags & (syn|ack) == syn", ANSWERS[how.answer])],
    "half-open": lambda how: [(f"tcp sport . tcp dport {{ {how.ports} }}", "drop")],
    "neighbour": lambda how: [("", "")],
}
"""Act -> its rules for one address."""


def add_chain(network: Namespace, chain: str, act: str, hows: Mapping[str, Settings]) -> None:
    """Adds the chain of a fault with the rules of an act; `hows` by address; for an act without
    rules, an empty one. Errors: NetworkFailed."""
    hook, side = ("output", "daddr") if act == "neighbour" else ("input", "saddr")
    lines = [
        f"add chain ip {LINK_TABLE} {chain}"
        f" {{ type filter hook {hook} priority {PRIORITY}; policy accept; }}"
    ]
    for address, how in hows.items():
        for match, verdict in RULES[act](how) if act in RULES else ():
            lines.append(
                f"add rule ip {LINK_TABLE} {chain} ip {side} {address} {match} counter {verdict}"
            )
    network.run("\n".join(lines))


def remove_chain(network: Namespace, chain: str) -> None:
    """Removes the chain of a fault with its rules. Errors: NetworkFailed."""
    network.run(f"flush chain ip {LINK_TABLE} {chain}\ndelete chain ip {LINK_TABLE} {chain}")


def counts(network: Namespace, chain: str) -> Counter[str]:
    """Address -> packets that the rules of a fault have met, as the kernel counts them. Errors:
    NetworkFailed."""
    packets_to: Counter[str] = Counter()
    for address, packets in COUNTED.findall(network.run(f"list chain ip {LINK_TABLE} {chain}")):
        packets_to[address] += int(packets)
    return packets_to
