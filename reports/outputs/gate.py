"""The outcome of a gate: for a terminal, as JUnit, as GitHub annotations and summary."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from holdfast.harness.campaigns import sums
from holdfast.harness.campaigns.gate import (
    FAILED,
    INCONCLUSIVE,
    NOT_EXERCISED,
    PASSED,
    WORDS,
    Trouble,
    exit_code,
)
from holdfast.harness.campaigns.results import Result, failed
from holdfast.harness.core.statistics import none_in
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.left_unknown import EXERCISE
from holdfast.reports.text.formatting import count, percent, plain, stopped
from holdfast.reports.text.layout import wrapped
from holdfast.reports.text.least_tried import least_tried

ANNOTATIONS = 10
"""Maximum number of annotations that GitHub shows per step."""
BY_CAUSE = ("violation", "limit")
"""Kinds of problems that may have a cause."""
MOST_LINES = 25
"""Lines of a failure's text."""
MOST_TEXT = {PASSED: 10, INCONCLUSIVE: 16}
"""Those of a gate that passed, or that left a question open."""
MOST_OF_REST = 2
"""Lines that say how many problems were left out."""
INDENT = 4
"""Columns before the further lines of a sentence."""
SUMMARY_BYTES = 1 << 20
TEXT_LIMIT = 1000
FEW_RATE = 0.25
"""A gate says so if it would miss a bug that breaks more than this share of a cell's runs."""


WORDS_OF_KIND = {
    "limit": "LIMIT",
    "excused": "known issue",
    "expired-excuse": "known issue, expired",
    "stale-excuse": "known issue, stale",
    "untried-excuse": "known issue, not exercised",
    "lost-exercise": "no longer exercised",
}
"""Kinds of problems that are printed in other words than their id in the JSON."""


def words(kind: str) -> str:
    """A kind of problem as printed: "known issue, expired"."""
    return WORDS_OF_KIND.get(kind, kind)


def headline(troubles: Sequence[Trouble], results: Sequence[Result]) -> str:
    """The outcome in one sentence, with its confidence."""
    code = exit_code(troubles)
    runs = sum(not failed(result) for result in results)
    if code != PASSED:
        problems = count(sum(t.code != PASSED for t in troubles), "problem")
        return f"gate {WORDS[code]}: {problems} in {count(runs, 'run')}"
    rate = f"failure rate below {percent(none_in(runs))}, 95% confidence"
    says = f"gate {WORDS[code]}: 0 of {count(runs, 'run')} broke a promise ({rate}"
    least = sums.least_tried(results)
    if least is None or least[2].bounded >= runs:
        return f"{says})"
    prop, fault, one = least
    return f"{says}{least_tried(prop, fault, one.bounded)})"


def terminal(troubles: Sequence[Trouble], results: Sequence[Result], columns: int = 0) -> str:
    """A sentence per problem, with the command that repeats it; the outcome last. Of more lines
    than fit, what broke no promise becomes shorter; then the later problems go and are counted.

    columns: of the terminal; 0: each sentence on one line
    """
    code = exit_code(troubles)
    # Of what was not exercised there may be many; what else is inconclusive comes before it.
    ordered = sorted(
        by_cause(troubles), key=lambda one: (one.code == PASSED, one.kind == NOT_EXERCISED)
    )
    last = [*few_runs(troubles, results), headline(troubles, results)]
    last = [line for text in last for line in _lines(text, columns)]
    room = MOST_TEXT.get(code, MOST_LINES) - len(last)
    blocks = _blocks(ordered, columns)
    if sum(map(len, blocks)) > room:
        blocks = _blocks([_shorter(one) for one in ordered], columns)
    if sum(map(len, blocks)) > room:
        shown, used = 0, MOST_OF_REST
        while used + len(blocks[shown]) <= room:
            used += len(blocks[shown])
            shown += 1
        left = Counter(words(one.kind) for one in ordered[shown:])
        names = ", ".join(f"{n} {word}" for word, n in left.items())
        more = f"{left.total()} more: {names}; --json and --junit have all"
        blocks = [*blocks[:shown], _lines(more, columns)]
    return "\n".join([line for block in blocks for line in block] + last)


def _lines(text: str, columns: int) -> list[str]:
    return wrapped(text, columns, INDENT).splitlines()


def _shorter(one: Trouble) -> Trouble:
    """What was not exercised without the reasons behind the first one, a limit without its cause.
    What broke a promise, and what says what to do, keeps all of it."""
    if one.kind not in (NOT_EXERCISED, "limit"):
        return one
    first, more, _ = one.sentence.partition(": " if one.kind == "limit" else "; ")
    return replace(one, sentence=f"{first}; more in --json" if more else first)


def _blocks(troubles: Iterable[Trouble], columns: int) -> list[list[str]]:
    """The lines of each problem; a command stands below the first problem that needs it."""
    blocks, seen = list[list[str]](), set[str]()
    for one in troubles:
        prop = f" {one.property}:" if one.property else ""
        says = stopped(one.sentence, TEXT_LIMIT)
        block = _lines(f"{words(one.kind)}: {plain(one.cell, 200)}:{prop} {says}", columns)
        if one.code != PASSED and one.result is not None:
            block += [f"  report: {plain(one.result.run)}/report.html"] if one.result.run else []
            block += [line for line in commands(one) if line not in seen]
        seen.update(block)
        blocks.append(block)
    return blocks


def by_cause(troubles: Sequence[Trouble]) -> list[Trouble]:
    """The problems with the violations of one cell that have one cause in one run as one: with all
    their properties and the sentence of the cause. Likewise those of one cell in equal words."""
    groups: dict[tuple[object, ...], list[Trouble]] = {}
    for one in troubles:
        run = one.result.key if one.result else ""
        # Two violations without a known cause may have two.
        alone = one.property if one.kind in BY_CAUSE else one.sentence
        key = (one.kind, one.cell, run, one.exercise, _cause(one) or alone)
        groups.setdefault(key, []).append(one)
    return [_joint(group) for group in groups.values()]


def _cause(trouble: Trouble) -> str:
    if trouble.kind not in BY_CAUSE or trouble.result is None:
        return ""
    judged = trouble.result.properties.get(trouble.property)
    return judged.cause if judged else ""


def _joint(group: Sequence[Trouble]) -> Trouble:
    first, cause = group[0], _cause(group[0])
    names = dict.fromkeys(one.property for one in group)
    if not cause:
        return replace(first, property=", ".join(names))
    runs = first.sentence.partition(": ")[0]
    return replace(first, property=", ".join(names), sentence=f"{runs}: {cause}")


def commands(trouble: Trouble) -> list[str]:
    """The command for a problem: the one that exercises what was not, else the one that repeats
    its run."""
    if trouble.exercise:
        return [f"  {EXERCISE}: {plain(trouble.exercise, 1200)}"]
    return [f"  again: {plain(trouble.result.command, 1200)}"] if trouble.result else []


def few_runs(troubles: Sequence[Trouble], results: Sequence[Result]) -> list[str]:
    """What a passed gate may have missed in the cell with the fewest runs, as one line or none."""
    runs = Counter(result.cell for result in results if not failed(result))
    if exit_code(troubles) != PASSED or not runs:
        return []
    cell, fewest = min(runs.items(), key=lambda one: one[1])
    if none_in(fewest) <= FEW_RATE:
        return []
    enough = next(n for n in range(fewest, 1000) if none_in(n) <= FEW_RATE)
    return [
        f"few runs: {plain(cell, 200)} has {count(fewest, 'run')}, so a bug that breaks up to"
        f" {percent(none_in(fewest))} of its runs may go unnoticed; {enough} seeds bring that"
        f" below {percent(FEW_RATE)}"
    ]


def junit(
    path: Path, troubles: Sequence[Trouble], results: Sequence[Result], campaign: str = "gate"
) -> Path:
    """One suite with a case per cell and promise without a problem, and one per problem: the
    promises that one cause broke are one case.

    A problem that fails the gate is a failure; one that makes it inconclusive is an error.
    campaign: name of the class of the cases
    """
    root = ET.Element("testsuites")
    group = ET.SubElement(root, "testsuite", name="holdfast gate", skipped="0")
    against = [one for one in troubles if one.code != PASSED]
    bad = {(one.cell, one.property) for one in against}
    kept = dict.fromkeys(
        (result.cell, prop)
        for result in results
        for prop, one in result.properties.items()
        # What no run of a cell exercised is a problem of its system, and no pass of the cell.
        if one.promised and one.verdict is Verdict.HOLDS and (result.cell, prop) not in bad
    )
    seconds = defaultdict[str, float](float)
    for result in results:
        # What no run exercised is a problem of all cells of a system.
        for name in {result.cell, result.system}:
            seconds[name] += result.seconds
    group.set("time", f"{sum(result.seconds for result in results):.3f}")
    name = f"holdfast.{campaign}"
    for cell, prop in kept:
        _case(group, name, f"{cell} / {prop}", [], seconds[cell])
    for of_case in _cases(against):
        first = of_case[0]
        title = f"{first.cell} / {first.property or first.kind}"
        _case(group, name, title, of_case, seconds[first.cell])
    found = list(group)
    group.set("tests", str(len(found)))
    group.set("failures", str(sum(case.find("failure") is not None for case in found)))
    group.set("errors", str(sum(case.find("error") is not None for case in found)))
    ET.indent(root)
    half = path.with_name(f".{path.name}.part")
    half.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
    os.replace(half, path)
    return path


def _cases(against: Sequence[Trouble]) -> list[list[Trouble]]:
    """The problems by case: those of one cause, then what else concerns its first property."""
    cases: dict[tuple[str, str], list[Trouble]] = {}
    for one in by_cause(against):
        cases.setdefault((one.cell, one.property or one.kind), []).append(one)
    return list(cases.values())


def _case(
    group: ET.Element, campaign: str, name: str, troubles: Sequence[Trouble], seconds: float
) -> None:
    """One case; its first problem, the worst, decides. seconds: of all runs of its cell."""
    case = ET.SubElement(group, "testcase", classname=plain(campaign, 200), name=plain(name, 300))
    case.set("time", f"{seconds:.3f}")
    if not troubles:
        return
    first = troubles[0]
    tag = "failure" if first.code == FAILED else "error"
    part = ET.SubElement(case, tag, type=first.kind, message=plain(first.sentence, 600))
    lines = [f"{words(one.kind)}: {plain(one.sentence, TEXT_LIMIT)}" for one in troubles]
    runs = dict.fromkeys(one.result.run for one in troubles if one.result and one.result.run)
    lines += [f"report: {plain(run)}/report.html" for run in runs]
    lines += [line.strip() for one in troubles for line in commands(one)]
    part.text = "\n".join(lines[:MOST_LINES])


def github_lines(troubles: Sequence[Trouble]) -> list[str]:
    """Annotations for GitHub: the worst problems, at most as many as it shows."""
    against = by_cause([one for one in troubles if one.code != PASSED])
    lines = []
    for one in against[:ANNOTATIONS]:
        title = _property(f"holdfast: {words(one.kind)} {one.property}".strip())
        again = " ".join(line.strip() for line in commands(one))
        text = f"{one.cell}: {stopped(one.sentence, TEXT_LIMIT)} {again}"
        lines.append(f"::error title={title}::{_data(text.strip())}")
    if len(against) > ANNOTATIONS:
        lines[-1] = (
            "::error title=holdfast::"
            f"{len(against) - ANNOTATIONS + 1} more problems; see the step summary"
        )
    return lines


def _data(text: str) -> str:
    clean = plain(text, TEXT_LIMIT)
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def step_summary(
    troubles: Sequence[Trouble], results: Sequence[Result], heat_map: Sequence[Sequence[str]] = ()
) -> str:
    """Markdown for a step's summary, at most as long as GitHub accepts.

    heat_map: rows of text, the first one its heading
    """
    lines = [f"## Holdfast: {headline(troubles, results)}", ""]
    for number, row in enumerate(heat_map):
        lines.append(f"| {' | '.join(map(_cell, row))} |")
        lines += ["| --- |" + " --- |" * (len(row) - 1)] if number == 0 else []
    lines += [""] if heat_map else []
    if troubles:
        lines += ["| what | where | property | why |", "| --- | --- | --- | --- |"]
        for one in troubles:
            row = (words(one.kind), one.cell, one.property, one.sentence)
            lines.append(f"| {' | '.join(_cell(part) for part in row)} |")
        lines.append("")
    again = dict.fromkeys(
        one.exercise or one.result.command
        for one in troubles
        if one.code != PASSED and one.result is not None
    )
    lines += [f"    {plain(command, 1200)}" for command in again]
    lines += ["", *_table(results)]
    text = "\n".join(lines) + "\n"
    whole = text.encode()
    if len(whole) <= SUMMARY_BYTES:
        return text
    return whole[: SUMMARY_BYTES - 100].decode(errors="ignore") + "\n\nand more; see the JSON.\n"


def _table(results: Sequence[Result]) -> Iterable[str]:
    """How often each promise held, was violated, and was not exercised."""
    seen: dict[tuple[str, str], list[Verdict]] = {}
    for result in results:
        for prop, one in result.properties.items():
            if one.promised:
                seen.setdefault((result.cell, prop), []).append(one.verdict)
    yield "| cell | promise | held | violated | not exercised |"
    yield "| --- | --- | --- | --- | --- |"
    for (cell, prop), verdicts in seen.items():
        counts = (verdicts.count(Verdict(word)) for word in ("HOLDS", "VIOLATED", "UNKNOWN"))
        yield f"| {_cell(cell)} | {_cell(prop)} | {' | '.join(str(n) for n in counts)} |"


def _cell(text: str) -> str:
    clean = plain(text, 600)
    for sign in "\\`*_[]<>|":
        clean = clean.replace(sign, f"\\{sign}")
    return clean
