"""The one knob of the majority vote: how many servers must say yes."""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: dict[str, str] = {
    "quorum": "1 to the number of servers, default more than half: so many must say yes",
    "mutant": "a planted bug by name, to see that it is found; none by default",
}
"""option -> its values and what it does"""


def quorum_of(options: Mapping[str, str], servers: int) -> int:
    """The quorum among so many servers. Raises ValueError for one that does not fit."""
    text = options.get("quorum", str(servers // 2 + 1))
    if not (text.isdecimal() and 1 <= int(text) <= servers):
        raise ValueError(f"option quorum is {text!r}; it is a whole number, 1 to {servers}")
    return int(text)
