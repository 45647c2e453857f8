"""The HTML report: offline, without script, and stronger than any string that gets into it."""

from __future__ import annotations

import base64
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from jinja2 import Environment
from markupsafe import escape

from holdfast.harness.core.errors import UsageError
from holdfast.harness.properties import kind
from holdfast.reports.outputs import terminal
from holdfast.reports.run import html as run_html
from holdfast.reports.run.page import groups
from holdfast.reports.text import templates
from holdfast.reports.text.formatting import span
from tests.reports import rendered as html
from tests.reports import specimens
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.recorded import recorded

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}
RUNS = ["clean", "limit", "broken", "unknown", "hostile"]


class Page(HTMLParser):
    """Tags, attributes and text of a page; a tag that is not closed in its place is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.style = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text += data


def parsed(name: str) -> Page:
    """The page of a specimen, parsed; it must be well nested to the end."""
    page = Page()
    page.feed(html.render(getattr(specimens, name)(), MANIFEST, PLAN))
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module", params=RUNS)
def page(request: pytest.FixtureRequest) -> Page:
    return parsed(request.param)


def test_the_page_needs_no_script_and_no_other_file(page: Page) -> None:
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "iframe", "object", "embed", "form", "base", "img", "image"}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in {"src", "srcset", "style", "xlink:href"}, (tag, name)
            if name == "href":
                assert (value or "").startswith(("#", "data:")), value
            elif tag != "svg":
                assert not re.search(r"url\((?!#)", value or ""), value
    assert not re.search(r"url\(|@import|https?:", page.style)


def test_the_policy_forbids_everything_but_inline_style_and_data_images(page: Page) -> None:
    policy = next(
        attributes["content"] or ""
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_ids_are_unique_and_every_link_inside_leads_somewhere(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for name in ("href", "aria-labelledby"):
            value = attributes.get(name) or ""
            names = value[1:] if value.startswith("#") else value if name != "href" else ""
            assert set(names.split()) <= set(ids), (name, value)
        for text in attributes.values():
            for used in re.findall(r"url\(#([\w-]+)\)", text or ""):
                assert used in ids


def test_tables_have_scopes_and_pictures_have_words(page: Page) -> None:
    for tag, attributes in page.tags:
        if tag == "th":
            assert attributes.get("scope") in {"col", "row"}
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes.get("aria-labelledby")
    named = [a for tag, a in page.tags if tag == "svg" and a.get("role") in ("img", "group")]
    assert len([tag for tag, _ in page.tags if tag == "desc"]) == len(named)


def test_hostile_strings_are_shown_escaped_shortened_and_isolated() -> None:
    text = html.render(specimens.hostile(), MANIFEST, "x = '</pre><script>'\n" * 10_000)
    assert len(text) < 1_000_000
    for bad in ("\x00", "\x1b", "\u202e", "\u2066", "<script", "<img src"):
        assert bad not in text, bad
    assert "&lt;script&gt;" in text
    assert "&lt;U+202E&gt;" in text
    assert "49 }}" not in text
    assert " 49 https" not in text
    assert "{{ 7*7 }}" in text
    page = parsed("hostile")
    assert "<U+202E>" in page.text
    assert "A" * 1300 not in page.text
    assert ("bdi", {}) in page.tags


def test_the_numbers_on_cards_and_drawings_agree() -> None:
    for name, numbers in (("broken", ["1", "2"]), ("limit", ["1", "2"]), ("clean", [])):
        text = html.render(getattr(specimens, name)(), MANIFEST, PLAN)
        cards = re.findall(r'<article class="card \w+" id="finding-(\d+)"', text)
        assert cards == numbers
        for number in numbers:
            card = text.split(f'id="finding-{number}"')[1].split("</article>")[0]
            # Beside the title, and in its two drawings: for a window, for a phone.
            assert re.findall(r'class="number text"[^>]*>(\d+)<', card) == [number] * 3
        overview = text.split('id="overview-title"')[1].split("</svg>\n")[0].split("<section")[0]
        assert sorted(re.findall(r'class="number text">(\d+)<', overview)) == numbers


def test_a_limit_is_shown_apart_from_a_broken_promise() -> None:
    text = html.render(specimens.limit(), MANIFEST, PLAN)
    assert 'id="limits"' in text
    assert 'id="broken"' not in text
    assert '<span title="Violated, but the system never promised it">LIMIT</span>' in text
    assert "An expired owner changed the resource" in text


@pytest.mark.parametrize(
    ("system", "begins"), [("mylock.py:L@redis", "mylock.py:L@redis kept"), ("etcd", "Etcd kept")]
)
def test_the_headline_begins_with_a_capital_but_for_the_name_of_a_file(
    system: str, begins: str
) -> None:
    text = html.render({**specimens.clean(), "system": system}, MANIFEST, PLAN)
    assert f'<h1 id="headline"><bdi>{begins}' in text


def test_unknown_has_a_colour_a_shape_and_a_word_of_its_own() -> None:
    text = html.render(specimens.unknown(), MANIFEST, PLAN)
    hero = text.split('id="verdict"')[1].split("</section>")[0]
    assert hero.startswith(' class="hero unknown"')
    assert 'class="shape unknown"' in hero
    assert ">UNKNOWN<" in hero
    assert "HOLDS" not in hero
    assert "Not exercised: no write came from an expired owner" in text


@pytest.mark.parametrize(
    "what",
    [
        "214 packets dropped",
        "c1 state T",
        "n3 offset \N{MINUS SIGN}5.000 s",
        "No expired owner could change the resource",
        "A sanity check, not a proof: a longer pause is always possible.",
        "512 grants carried tokens from 31 to 210",
        "6 commands refused",
        "1.24 s",
        "0.82",
        "clock assumptions",
        "holdfast run --system reference",
        "kernel",
    ],
)
def test_all_evidence_stands_on_the_page(what: str) -> None:
    assert what in parsed("clean").text


def test_what_was_there_what_it_chose_and_how_much_is_left_stand_in_numbers() -> None:
    run = specimens.limit()
    sides = [{"servers": n, "clients": 2, "asked": 40 * n, "granted": 31 * n} for n in (2, 1)]
    run["evidence"] |= {
        "availability": {
            "servers": 5, "down_share": 0.01, "quorum_failure": 9.85e-6,
            "majority_down_share": 0.25, "unanswered_share": 0.004,
        },
        "partitions": {
            "choice": "liveness", "reason": "31 grants on a minority",
            "cuts": [{"fault": "f<9>", "sides": sides}],
        },
        "waits": {"told": 1238, "per_grant": 1.2, "per_release": 2.66},
        "expired_owner": {"sent": 14, "refused": 0, "accepted": 14, "sentence": ""},
    }  # fmt: skip
    text = re.sub(r"<[^>]+>|\s+", " ", html.render(run, MANIFEST, PLAN))
    text = re.sub(" +", " ", text)
    for part in (
        "Downtime of the 5 servers caused by faults, p 1%",
        "0.00098%", "half of them or more stopped 25%", "with unknown outcome 0.4%",
        "During partitions it chose liveness : 31 grants on a minority", "f&lt;9&gt; 2 2 80 62",
        "Waits per release 2.66 1,238 in all",
        "interval of the acceptance rate: 81-100%",
    ):  # fmt: skip
        assert part in text, part


def test_the_plan_can_be_read_and_taken_along() -> None:
    page = parsed("clean")
    assert 'persistence = "stock"' in page.text
    link = next(attributes for _, attributes in page.tags if attributes.get("download"))
    assert base64.b64decode((link["href"] or "").split(",")[1]).decode() == PLAN


def test_thousands_of_findings_get_a_few_cards_and_a_count() -> None:
    run = specimens.broken()
    first = specimens.double_grant_finding()
    run["verdicts"][0]["findings"] = [first | {"t_ns": first["t_ns"] + n} for n in range(5000)]
    text = html.render(run, MANIFEST, PLAN)
    # One for all that the same owners brought about, with their number, and the other cause.
    assert len(re.findall(r'<article class="card broken"', text)) == 2
    assert "5,000 times, after " in text
    assert "<summary>5,000 findings of mutual exclusion</summary>" in re.sub("</?bdi>", "", text)
    assert "It happened 5,000 times. A finding is one violation of one property" in text
    assert len(text) < 400_000


def test_findings_of_other_owners_with_the_same_cause_get_one_card() -> None:
    run = specimens.broken()
    first = specimens.double_grant_finding()
    run["verdicts"][0]["findings"] = [
        first
        | {
            "t_ns": first["t_ns"] + n,
            "witnesses": [one | {"attempt": one["attempt"] + n} for one in first["witnesses"]],
        }
        for n in range(5)
    ]
    text = html.render(run, MANIFEST, PLAN)
    assert len(re.findall(r'<article class="card broken"', text)) == 2
    assert "5 times, after " in text


def test_the_timeline_follows_the_first_cause_and_the_rest_follows_the_timeline() -> None:
    text = html.render(specimens.broken(), MANIFEST, PLAN, recorded())
    cards = [at.start() for at in re.finditer(r'<article class="card broken"', text)]
    places = [text.index(f'<section id="{name}"') for name in ("timeline", "further")]
    places.append(text.index('<details class="fold" id="run"'))
    assert len(cards) == 2
    assert sorted([*cards, *places]) == [cards[0], places[0], places[1], cards[1], places[2]]


def compiled_names(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """The templates that are compiled from now on, as in a new process with this folder."""
    compiled: list[str] = []
    compiling = Environment.compile

    def counted(self: Environment, source: str, name: str, filename: str) -> CodeType:
        compiled.append(name)
        return compiling(self, source, name, filename)

    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(templates, "COMPILED", templates.CompiledTemplates(folder))
    monkeypatch.setattr(Environment, "compile", counted)
    return compiled


def test_templates_are_compiled_once_and_show_the_run_that_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = compiled_names(monkeypatch, tmp_path)
    first = html.render(specimens.broken(), MANIFEST, PLAN)
    assert "report.html" in compiled and len(set(compiled)) == len(compiled)
    other = html.render(specimens.clean(), MANIFEST, PLAN)
    assert html.render(specimens.broken(), MANIFEST, PLAN) == first != other
    assert len(set(compiled)) == len(compiled)


def test_the_next_process_compiles_no_template_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = html.render(specimens.broken(), MANIFEST, PLAN)
    with monkeypatch.context() as patch:
        assert compiled_names(patch, tmp_path) == []
        assert html.render(specimens.broken(), MANIFEST, PLAN) == first
    with monkeypatch.context() as patch:
        compiled = compiled_names(patch, tmp_path)
        assert html.render(specimens.broken(), MANIFEST, PLAN) == first
        assert compiled == []


@pytest.mark.parametrize("damage", ["cut short", "of other filters", "unreadable", "no folder"])
def test_code_of_templates_that_cannot_be_used_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    folder = tmp_path / "kept"
    with monkeypatch.context() as patch:
        compiled_names(patch, folder)
        first = html.render(specimens.broken(), MANIFEST, PLAN)
    files = sorted(folder.iterdir())
    assert files and all(path.suffix == ".jinja" for path in files)
    for path in files:
        content = path.read_bytes()
        path.unlink()
        if damage == "cut short":
            path.write_bytes(content[:40])
        if damage == "of other filters":
            path.write_bytes(b"0" * 32 + content[32:])
        if damage == "unreadable":
            path.mkdir()
    if damage == "no folder":
        folder.rmdir()
        folder.touch()
    compiled = compiled_names(monkeypatch, folder)
    assert html.render(specimens.broken(), MANIFEST, PLAN) == first
    assert len(compiled) == len(files)
    left = [] if damage == "no folder" else sorted(folder.iterdir())
    assert left == ([] if damage == "no folder" else files), "nothing but them"


def test_a_section_without_content_is_absent() -> None:
    run: dict[str, Any] = specimens.clean() | {"evidence": {}, "promises": None, "faults": []}
    text, whole = html.render(run, {}, ""), html.render(specimens.clean(), MANIFEST, PLAN)
    for name in ("system", "faults"):
        assert f'<details class="fold" id="{name}">' in whole
        assert f'id="{name}"' not in text and f'href="#{name}"' not in text
    assert 'id="further"' not in whole and 'id="notes"' not in whole


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = html.write(tmp_path, specimens.hostile(), MANIFEST, PLAN)
    assert path == tmp_path / "report.html"
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    before = path.read_bytes()
    with pytest.raises(UsageError):
        html.write(tmp_path, {"run": "half"}, {}, "")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_run_shows_what_held_under_which_kind_of_fault() -> None:
    run = specimens.clean()
    run["nodes"] = {"1": "c1", "2": "c2", "3": "probe"}
    run["exit_code"] = 3
    for row in run["verdicts"]:
        row["verdict"] = "HOLDS"
        row["under"] = {
            "pause": {"verdict": "HOLDS", "asked": True, "promised": True},
            "reset": {
                "verdict": "UNKNOWN", "asked": True, "promised": True,
                "reason": "no reset took effect: 0 of 3",
            },
        }  # fmt: skip
    text = re.sub(r"<[^>]+>|\s+", " ", html.render(run, MANIFEST, PLAN))
    assert "but it was not tested under reset." in text
    assert "Held under pause, not exercised under reset (no reset took effect: 0 of 3)" in text
    assert "UNKNOWN: no reset took effect: 0 of 3" in " ".join(text.split())
    assert "2 clients" in " ".join(text.split())


def test_a_distribution_of_one_value_is_a_number_and_no_histogram() -> None:
    run = specimens.clean()
    one = run["evidence"]["latency_ns"]["acquire"]
    value = one["p50"]
    same = dict.fromkeys(("min", "p50", "p90", "p99", "max", "mean"), value)
    run["evidence"]["latency_ns"] = {"acquire": one | same | {"n": 1}}
    text = html.render(run, MANIFEST, PLAN)
    panel = text[text.index("<b>acquire</b>") :].split("</figure>")[0]
    assert f"<b>{span(value)}</b> one value" in panel
    assert "<svg" not in panel and "quantiles" not in panel


def test_what_to_do_is_that_of_the_cause_in_every_output() -> None:
    run = html.read(specimens.broken())
    advice = "If you use this lock: let no server's clock be stepped."
    run = replace(run, causes=(replace(run.causes[0], advice=advice), *run.causes[1:]))
    page = run_html.render(run, {}, PLAN)
    assert str(escape(advice)) in page
    assert advice in " ".join(terminal.render(run, width=100, colour=False, verbose=False).split())


def test_what_a_finding_means_is_on_its_card_and_not_in_the_headline() -> None:
    text = html.render(specimens.broken(), MANIFEST, PLAN)
    hero, rest = text.split("</section>", 1)
    means = kind("double-grant").means[1:]
    assert ">Double grant<" not in re.sub("</?bdi>", "", hero)
    assert means not in hero and means in rest


def test_the_steps_of_a_cause_are_numbered_by_time_whatever_version_judged_the_run() -> None:
    """A run of an earlier version has no steps for halves that its sentence has."""
    run = html.read(specimens.broken())
    cause = next(one for one in run.causes if one.kind == "double-grant")
    earlier = tuple(replace(step, row=-1) for step in cause.steps if not step.repeats)
    for steps in (cause.steps, earlier):
        causes = tuple(replace(one, steps=steps) if one is cause else one for one in run.causes)
        (card, *_), *_ = (group.cards for group in groups(replace(run, causes=causes)))
        times = [line.half.t_ns for line in card.lines if line.half]
        assert len(times) == 2 and times == sorted(times)
        numbers = [line.number for line in card.lines]
        assert numbers == list(range(1, len(card.lines) + 1))
        texts = [line.text for line in card.lines]
        told = [float(re.findall(r"(?:at|of) (\d+\.\d+) s", text)[0]) for text in texts]
        assert told == sorted(told), texts
