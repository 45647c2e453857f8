"""Formats text and numbers for people; input from services and users is not trusted."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping

from holdfast.harness.core.json_value import Json
from holdfast.harness.verdicts.met_calls import met

NS = 1_000_000_000
MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"
DISPLAY_LIMIT, SAYS_LENGTH = 240, 80


def plain(text: object, limit: int = DISPLAY_LIMIT) -> str:
    """One line without characters that could mislead a terminal, browser or XML parser.

    Control characters become their pictures, direction marks and lone surrogates their code
    points; longer text is cut at `limit` characters and, if there is room, followed by its
    length.
    """
    whole = str(text)
    shown = "".join(_visible(char) for char in whole[:limit])
    if len(whole) > limit:
        shown += f"… ({len(whole):,} characters)" if limit >= SAYS_LENGTH else "…"
    return shown


def lines(text: str, limit: int) -> str:
    """Like `plain`, but keeps line breaks and tabs: for a plan or a log."""
    shown = "".join(char if char in "\n\t" else _visible(char) for char in text[:limit])
    if len(text) > limit:
        shown += f"\n… ({len(text):,} characters in all)"
    return shown


def _visible(char: str) -> str:
    code = ord(char)
    if char in "\n\t\r":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code & 0xFFFE == 0xFFFE or unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return f"<U+{code:04X}>"
    return char


def seconds(ns: float, digits: int = 3) -> str:
    """A point in time: "4.512 s", with a typographic minus sign."""
    return f"{ns / NS:,.{digits}f} s".replace("-", MINUS)


def percent(rate: float) -> str:
    """A rate with two significant digits: "1.5%", "0.00098%"."""
    return f"{100 * rate:.2g}%" if rate < 0.995 else f"{100 * rate:.0f}%"


def span(ns: float | None) -> str:
    """A duration in a fitting unit: "512 ms", "38 µs", "2.40 s"; a dash for none."""
    if ns is None:
        return NONE
    size = abs(ns)
    if size == 0:
        return "0 s"
    for unit_ns, unit in ((NS, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if size >= unit_ns * 0.9995:
            value = ns / unit_ns
            digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
            return f"{value:,.{digits}f} {unit}".replace("-", MINUS)
    return f"{ns:.0f} ns".replace("-", MINUS)


def count(n: int, one: str, many: str = "") -> str:
    """ "1 grant", "1,204 grants"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(items: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    names = list(items)
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def number(value: object) -> str:
    """A count, or a ratio with three significant digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    if isinstance(value, float):
        return f"{value:,.3g}".replace("-", MINUS) if abs(value) < 1000 else f"{value:,.0f}"
    return plain(value)


def stopped(text: object, limit: int = 600) -> str:
    """A sentence through `plain`, with a full stop."""
    clean = plain(text, limit).strip()
    return clean if not clean or clean.endswith((".", "!", "?", ")")) else clean + "."


def sentence(text: object, limit: int = 600) -> str:
    """The same with a capital letter, unless it begins with a name like "c5"."""
    clean = stopped(text, limit)
    first = clean.split(" ", 1)[0]
    return clean[:1].upper() + clean[1:] if first.isalpha() else clean


LABELS = {
    "states": "state",
    "killed": "",
    "links": "",
    "offset_ns": "offset",
    "after_ns": "after the heal",
    "caught": "met at",
}
"""Labels of the fault agent's measurements, if different from their names."""

PARTS = 6


def evidence(measured: Mapping[str, Json]) -> str:
    """The fault agent's measurements as text: "214 packets dropped", "c1 state T".

    `effective` is omitted, because it has its own column, and so are times of the run's clock, such
    as `cut_ns`; after PARTS nodes the rest is counted.
    """
    calls = met(measured)
    facts = [
        _fact(str(key), calls if key == "caught" and calls else value)
        for key, value in measured.items()
        if key != "effective" and not (key.endswith("_ns") and isinstance(value, list))
    ]
    return "; ".join(fact for fact in facts if fact) or "nothing measured"


def _fact(key: str, value: object) -> str:
    name = LABELS.get(key, plain(key.removesuffix("_ns").replace("_", " "), 40))
    if isinstance(value, Mapping):
        parts = [
            f"{plain(node, 40)} {name} {_values(key, found)}".replace("  ", " ")
            for node, found in list(value.items())[:PARTS]
        ]
        if len(value) > PARTS:
            parts.append(f"and {len(value) - PARTS:,} more")
        return ", ".join(parts)
    if key == "dropped" and isinstance(value, int):
        return f"{count(value, 'packet')} dropped"
    if isinstance(value, list | tuple):
        return f"{name} {listed(plain(item, 60) for item in value[:PARTS])}" if value else ""
    return f"{name} {_values(key, value)}"


def _values(key: str, found: object) -> str:
    """One value, or the distinct values of the processes of a node."""
    if isinstance(found, Mapping):
        leaves = dict.fromkeys(_values(key, leaf) for leaf in list(found.values())[:PARTS])
        return " / ".join(leaves) or "none"
    if isinstance(found, int | float) and not isinstance(found, bool) and key.endswith("_ns"):
        return seconds(found) if key in LABELS else span(found)
    if isinstance(found, str | int | float):
        return number(found)
    return plain(json.dumps(found, default=str))
