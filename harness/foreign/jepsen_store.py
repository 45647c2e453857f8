"""A store folder of Jepsen: `history.edn` beside the verdict in `results.edn`.

`test.jepsen`, Jepsen's own binary form of a test, is not read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.edn import forms
from holdfast.harness.foreign.operations import Malformed
from holdfast.harness.foreign.verdict import JepsenRow

HISTORY, RESULTS, TEST = "history.edn", "results.edn", "test.jepsen"
UNKNOWN = "unknown"
RANK: dict[bool | str, int] = {True: 0, UNKNOWN: 1, False: 2}
"""As Jepsen joins the verdicts of several checkers."""


def is_store(path: Path) -> bool:
    """Whether this is a folder that Jepsen wrote about one test."""
    ours = (path / "manifest.json").exists()
    return (
        path.is_dir() and not ours and any((path / n).is_file() for n in (HISTORY, RESULTS, TEST))
    )


def history_of(folder: Path) -> Path:
    """Its history. UsageError if it has none that can be read."""
    history = folder / HISTORY
    if not history.is_file():
        raise UsageError(
            f"{folder}: a store folder of Jepsen without {HISTORY}; {TEST} is not read"
        )
    return history


def compared(folder: Path, ours: Verdict) -> JepsenRow | None:
    """Jepsen's verdict on the same history beside ours; None without results.

    That of the checkers whose name has "linear" in it if there are any, as in histories of many
    registers, else of the whole test, to which others contribute. UsageError.
    """
    path = folder / RESULTS
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            results = [form for _, form in forms(file) if isinstance(form, dict)]
    except Malformed as error:
        raise UsageError(f"{path}, {error.where}: {error.reason}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if len(results) != 1 or not _is_verdict(results[0].get(":valid?")):
        raise UsageError(f"{path}: no :valid? in it; expected the results of one test")
    judged = [one for one in _verdicts("", results[0]) if "linear" in one[0]]
    judged = judged or [("the whole test", results[0][":valid?"])]
    valid = max((_plain(verdict) for _, verdict in judged), key=RANK.__getitem__)
    known = valid != UNKNOWN and ours is not Verdict.UNKNOWN
    return {
        "valid": valid,
        "compared": sorted({name for name, _ in judged}),
        "agrees": (valid is (ours is Verdict.HOLDS)) if known else None,
    }


def words(row: JepsenRow) -> str:
    """One sentence for the terminal."""
    valid = row["valid"] if row["valid"] == UNKNOWN else str(row["valid"]).lower()
    sentence = f"{RESULTS} has :valid? {valid} ({', '.join(row['compared'])})"
    if row["agrees"] is None:
        return f"{sentence}: one of the two verdicts is unknown"
    return f"{sentence}: Jepsen {'agrees' if row['agrees'] else 'DISAGREES'}"


def _verdicts(name: str, results: Mapping[Hashable, Hashable]) -> Iterator[tuple[str, Hashable]]:
    """(name of a checker, its :valid?) of all nested results. No recursion deeper than EDN's."""
    for key, value in results.items():
        if key == ":valid?" and name and _is_verdict(value):
            yield name, value
        if isinstance(value, frozenset) and all(
            isinstance(p, tuple) and len(p) == 2 for p in value
        ):
            yield from _verdicts(str(key).lstrip(":"), dict(value))


def _is_verdict(value: Hashable) -> bool:
    return value is True or value is False or value == ":unknown"


def _plain(value: Hashable) -> bool | str:
    return value if isinstance(value, bool) else UNKNOWN
