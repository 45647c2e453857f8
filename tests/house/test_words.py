"""Plain technical English: a deny-list of paraphrases, over every source of text in SOURCES.

The list is a guard for texts that have been read and rewritten, not a substitute for reading them.
FINISHED lists the folders whose docstrings have been rewritten, MESSAGES those whose messages have.
To extend the list to other texts, add a function to SOURCES.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import catalogue, docgen
from holdfast.catalogue.findings import FINDINGS
from holdfast.catalogue.mutants import MUTANTS
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import ABILITIES
from holdfast.harness.properties import KINDS, PROPERTIES
from holdfast.reports.many.claims import CLAIMS
from holdfast.scenarios import SCENARIOS, path_of
from tests.house.imports import nodes

ROOT = Path(__file__).resolve().parents[2]
GENERATED, HISTORY = "docs/reference", "docs/decisions"
Text = tuple[str, str]
"""(text, where): `where` names its place for the message, such as a path."""


class Denied(NamedTuple):
    """A pattern (a space matches any white space), what to write instead, a sentence it catches."""

    pattern: str
    write: str
    example: str


DENIED = (
    Denied(r"\bbit(?:es?|ing)\b", "took effect, effective", "no pause was seen to bite"),
    Denied(
        r"\b(?:that|which|faults?|it|kill|pause|partition) bit\b",
        "took effect",
        "only the faults that bit",
    ),
    Denied(
        r"\b(?:spoke|stands?|stood) against\b", "no violation found", "nothing spoke against it"
    ),
    Denied(r"\baccus(?:e|es|ed|ing)\b", "report a false positive", "never accuse a correct lock"),
    Denied(r"\bput to the test\b", "exercised, tested", "what was put to the test"),
    Denied(r"\bend(?:s|ed) by itself\b", "exited unexpectedly", "c1 ended by itself"),
    Denied(
        r"\b(?:is|are|was|were|been|be|being) told\b",
        "is notified of the loss, receives the response",
        "the holder is told that it lost the lock",
    ),
    Denied(r"\btell(?:s|ing)? nobody\b", "does not notify", "a client that tells nobody"),
    Denied(r"\basks? again\b|\basked again\b", "retries, polls", "all of them asked again at once"),
    Denied(
        r"\banswer(?:s|ed)? ok\b|\banswers in a second\b",
        "returned ok",
        "a renewal that the service answered ok",
    ),
    Denied(
        r"\b(?:nobody|somebody|someone|everybody|everyone|anybody|anyone)\b(?!-)",
        "a concrete subject: no client, the holder, no request is granted",
        "for 4 s nobody was granted the lock",
    ),
    Denied(r"\bwhoever\b", "the holder, the client that ...", "whoever holds the lock is stopped"),
    Denied(r"\bwho came (?:first|later|last)\b", "order of requests", "it serves who came first"),
    Denied(
        r"\bthe one (?:before|after)\b",
        "predecessor, successor",
        "a waiter watches the one before it",
    ),
    Denied(
        r"\bturn(?:s|ed|ing)? (?:\w+ )?(?:down|away)\b",
        "rejected; the victim is aborted",
        "the request was turned down",
    ),
    Denied(r"(?<!-)\bcircles?\b", "wait-for cycle, deadlock", "a circle of waits"),
    Denied(
        r"\b(?:lone|every|wide) (?:vote|quorum)\b",
        "quorum size 1, all replicas, quorum too large",
        "a lone vote",
    ),
    Denied(
        r"\blen(?:ds?|t|ding)\b|\bt(?:akes?|aken|ook|aking) back\b",
        "leases, revokes",
        "a grant is lent for a time",
    ),
    Denied(r"\bstamp(?:s|ed|ing)?\b", "timestamps", "sockets that carry the kernel's stamps"),
    Denied(r"\bexcus(?:e|es|ed|ing)\b", "known issue, suppression", "an excuse with a last day"),
    Denied(r"\b(?:hangs|hung|hang) up\b", "the server closes the connection", "the peer hung up"),
    Denied(r"\bstewards?\b", "host agent", "the steward of a host"),
    Denied(
        r"\b(?:obituar\w+|bury|buried|graves?|knock\w*|deaf)\b(?!-)",
        "exit reason, reap, tombstone, connect, closed to",
        "the obituary of a process",
    ),
    Denied(
        r"\bchances?\b|\bdrawn? (?:from|by|per)\b|\bdraws (?:from|faults)\b",
        "randomness, sample",
        "where all chance comes from",
    ),
    Denied(
        r"\b99 of 100\b|\b(?:one|two|three|nine) of ten\b|\btenths?\b|\bpercent\b",
        "p99, p90, 90%",
        "fewer than nine tenths of the acquires",
    ),
    Denied(r"\bevery so many\b|\bmany-th\b", "every N-th", "run every so many-th seed again"),
    Denied(
        r"\bis no (?:rate|duration|plan|number|seed|clock|run)\b",
        "invalid rate, invalid duration",
        "'soon' is no duration",
    ),
    Denied(r"\b(?:longer|less|more) than nothing\b", "> 0, < 0", "a time longer than nothing"),
    Denied(
        r"\b(?:in|of|by|for|after|most|until) so (?:many|long|much)\b",
        "the number, the duration, the amount",
        "violated in so many of so many",
    ),
    Denied(r"\bknows? nothing\b|\bis known of\b", "unknown", "nothing is known of it"),
    Denied(r"\bdoors?\b", "socket, entry point", "the front door of the tool"),
    Denied(r"\bplugs?\b(?!-)", "socket, filter", "a plug for each connection"),
    Denied(r"\bwho asks?\b", "the client, the sender", "it tells who asks"),
    Denied(r"\bwhat became of\b", "the result of", "what became of a fault"),
    Denied(r"\bat whatever\b", "at any", "it ends at whatever moment ^C comes"),
    Denied(r"\bamid\b", "within, during", "a violation amid two faults"),
    Denied(r"\bdear\b|\bcheap(?:er|ly|est)?\b", "expensive; better: the number", "it is dear"),
    Denied(r"\b(?:left|leaves?|leaving) alone\b", "not addressed", "a server was left alone"),
    Denied(r"\bkeeps? (?:its|their|his) word\b", "keeps its promise", "both locks keep their word"),
    Denied(r"\bmend(?:s|ed|ing)?\b", "fix; of a fault: heal", "a mistake in its client was mended"),
    Denied(r"\bsurely\b", "certainly", "it surely had no effect"),
    Denied(r"\bsome \d", "about", "fetched on first use, some 114 MB"),
    Denied(r"\banew\b", "again, regenerate, restart", "a new leader counts it anew"),
    Denied(r"\bin vain\b", "wasted, without a result", "much work in vain"),
    Denied(r"\b(?:stands?|stood) still\b", "is paused, stalls", "the node stands still"),
    Denied(r"\bfor ever\b", "forever", "everybody waits for ever"),
    Denied(r"\bundisturbed\b|\bcalm\b", "without faults", "two minutes undisturbed"),
    Denied(r"\bway out\b", "always undone, on every exit path", "undone on every way out"),
    Denied(r"\b(?:shelf|tally|obituaries)\b", "run index, summary", "the shelf of runs"),
    Denied(
        r"\b(?:harness|checkers|clusters|nemesis|workloads|reports|src/holdfast)/(?:\w+/)*"
        r"(?:same|shelf|steady|tally|rates|orders|entry|plain|given|ended|ages|queried|served"
        r"|admitted|drawn|split|serial|twice|circles|endings|talk|meaning)\.py\b",
        "the module's present name",
        "see `harness/shelf.py`",
    ),
)

QUOTED = (
    # Wording that was chosen for these two places.
    "above all on whoever holds the lock",
    "Checkers would rather stay silent than accuse.",
    # Output of the program, present or of the time of a finding.
    "was told by 0.543 s that token 3 holds",
)
"""Exact texts that may keep a denied word."""


def prose(text: str) -> str:
    """Markdown without inline code (but names of modules), link targets and evidence, same lines.

    Evidence is output: a line of the matrix, "- PROPERTY, FAULT: SENTENCE `holdfast run ...`".
    """
    text = re.sub(r"^- [\w-]+, [^:\n]+: .*`holdfast .*`$", "", text, flags=re.M)
    text = re.sub(r"(?<!`)`(?![\w/]+\.py`)[^`\n]+`(?!`)", "`code`", text)
    return re.sub(r"\]\([^)\n]*\)", "]", text)


def documents() -> Iterator[Text]:
    """README, CONTRIBUTING and docs, but for what is generated from code or is history."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        where = path.relative_to(ROOT).as_posix()
        if not where.startswith((GENERATED, HISTORY)):
            yield prose(path.read_text()), where


def changelog() -> Iterator[Text]:
    """The entries of the unreleased version."""
    yield prose((ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]), "CHANGELOG.md"


MESSAGES = (
    "src/holdfast", "reports", "nemesis", "workloads", "clusters",
    "harness/core", "harness/plans", "harness/foreign", "harness/runs", "harness/client",
    "harness/history", "harness/driver", "harness/judging", "harness/campaigns",
)  # fmt: skip
"""Folders whose messages (string constants of raise statements) have been rewritten."""
FINISHED = (
    "src/holdfast", "reports", "workloads", "nemesis", "checkers",
    "harness/core", "harness/campaigns", "harness/plans", "harness/runs", "harness/client",
    "harness/history", "harness/judging", "harness/foreign", "harness/verification",
    "harness/driver", "harness/recording", "harness/verdicts",
    "clusters/systems", "clusters/libraries", "clusters/backends/docker",
    "clusters/backends/local", "clusters/backends/ssh", "clusters/backends/abilities.py",
    "clusters/backends/children.py", "clusters/backends/leftovers.py",
    "clusters/backends/processes.py",
)  # fmt: skip
"""Folders, and files, whose docstrings and comments have been rewritten."""
COMMENTED = (*(place for place in FINISHED if place != "nemesis"), "nemesis/kinds")


def help_texts() -> Iterator[Text]:
    """The help of every command."""
    yield docgen.commands(), "holdfast --help"


def summaries() -> Iterator[Text]:
    """One-sentence descriptions: catalogue, scenarios, properties, abilities, kinds of findings."""
    for table in (
        catalogue.SYSTEMS, catalogue.BACKENDS, catalogue.WORKLOADS, catalogue.NEMESES,
        catalogue.MODELS, MUTANTS, SCENARIOS, FINDINGS, LIBRARIES,
    ):  # fmt: skip
        for name, row in table.items():
            yield row.says, name
    for name, text in {**catalogue.RESOURCES, **ABILITIES}.items():
        yield text, name
    for name, one in PROPERTIES.items():
        yield one.sentence, name
    for name, claim in CLAIMS.items():
        cells = "\n".join(cell.says for cell in claim.cells.values())
        yield f"{claim.claim}\n{claim.mechanism}\n{claim.caveat}\n{cells}", name
    for name, words in KINDS.items():
        yield f"{words.name}\n{words.means}\n{words.remedy}", name
    for name in SCENARIOS:
        lines = path_of(name).read_text().splitlines()
        yield "\n".join(line[1:] for line in lines if line.startswith("#")), f"{name}.toml"
    for name, row in catalogue.SYSTEMS.items():
        sheet = load(row.entry).promises({}).sheet
        yield "\n".join(sheet.values()), f"design sheet of {name}"
    for rows in (catalogue.SYSTEMS, catalogue.WORKLOADS, catalogue.NEMESES):
        for name, entry in rows.items():
            yield prose(docgen.docstring(entry.entry)), f"module docstring of {name}"


def templates() -> Iterator[Text]:
    """Text of the HTML templates: without tags and expressions."""
    for path in sorted((ROOT / "reports/templates").glob("*.html")):
        labels = " ".join(re.findall(r'(?:aria-label|title|alt)="([^"]*)"', path.read_text()))
        text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", " ", path.read_text(), flags=re.S)
        yield f"{text}\n{labels}", path.name


def _modules(*places: str) -> Iterator[tuple[Sequence[ast.AST], str]]:
    """The nodes of every module of these folders; a link to a folder is not followed."""
    for place in places:
        found = sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]
        for path in found:
            yield nodes(path), path.relative_to(ROOT).as_posix()


def messages() -> Iterator[Text]:
    """String constants of raise statements."""
    for inside, where in _modules(*MESSAGES):
        for node in inside:
            if isinstance(node, ast.Raise):
                texts = [
                    one.value
                    for one in ast.walk(node)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                ]
                yield prose(" ".join(texts)), f"{where}:{node.lineno}"


def docstrings() -> Iterator[Text]:
    """Docstrings of modules, classes and functions, and texts below constants."""
    for inside, where in _modules(*FINISHED):
        for node in inside:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield prose(node.value.value), f"{where}:{node.lineno}"


def comments() -> Iterator[Text]:
    """Comments; those of consecutive lines are one text."""
    for place in COMMENTED:
        paths = sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]
        for path in paths:
            lines = path.read_text().splitlines(keepends=True)
            found = [
                (token.start[0], token.string.lstrip("#: "))
                for token in tokenize.generate_tokens(iter(lines).__next__)
                if token.type == tokenize.COMMENT
            ]
            # Their line numbers less their places are equal for comments on consecutive lines.
            for _, group in groupby(enumerate(found), lambda one: one[1][0] - one[0]):
                block = [comment for _, comment in group]
                text = "\n".join(words for _, words in block)
                yield prose(text), f"{path.relative_to(ROOT).as_posix()}:{block[0][0]}"


def constants() -> Iterator[Text]:
    """Text constants of code that is shown to users: verdicts and their reasons, claims."""
    for inside, where in _modules("checkers", "reports"):
        notes = {id(node.value) for node in inside if isinstance(node, ast.Expr)}
        for node in inside:
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in notes
                and " " in node.value
            ):
                yield node.value, f"{where}:{node.lineno}"


SOURCES: tuple[Callable[[], Iterator[Text]], ...] = (
    documents, help_texts, summaries, templates, messages, docstrings, comments,
    constants, changelog,
)  # fmt: skip
"""Where texts come from. A pass over further texts adds its function here."""


def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s+"), re.I)


PATTERNS = [(compiled(row.pattern), row) for row in DENIED]


def hits(text: str) -> list[tuple[int, str, str]]:
    """(line, what was found, what to write) of every denied word outside of QUOTED."""
    for quote in QUOTED:
        there = compiled(re.escape(quote).replace(r"\ ", " "))
        text = there.sub(lambda found: re.sub(r"\S", "-", found[0]), text)
    found = [
        (text.count("\n", 0, match.start()) + 1, match[0], row.write)
        for pattern, row in PATTERNS
        for match in pattern.finditer(text)
    ]
    return sorted(found)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_no_text_has_a_denied_word(source: Callable[[], Iterator[Text]]) -> None:
    found = [
        f"{where}:{line}: {word!r}; write: {write}"
        for text, where in source()
        for line, word, write in hits(text)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("row", DENIED, ids=lambda row: row.example)
def test_a_planted_sentence_is_caught(row: Denied) -> None:
    wrapped = row.example.replace(" ", "\n")
    assert row.write in [write for _, _, write in hits(row.example)]
    assert row.write in [write for _, _, write in hits(prose(f"# A page\n\n{wrapped}\nend"))]


def test_quotes_code_and_terms_of_art_are_no_hits() -> None:
    fine = (
        "The fault took effect; p99 12 ms; the history is the same bit for bit; 32-bit numbers;"
        " a wait-for cycle; `--mutant deaf-waiter`; [cycles](circles.md); kernel timestamps;"
        " above all on whoever\nholds the lock"
    )
    assert hits(prose(fine)) == []


def test_every_quote_is_still_in_a_text() -> None:
    texts = [re.sub(r"\s+", " ", text) for source in SOURCES for text, _ in source()]
    assert [quote for quote in QUOTED if not any(quote in text for text in texts)] == []
