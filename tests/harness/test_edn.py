"""EDN forms: random values printed and read back, and what each mistake is called."""

from __future__ import annotations

import io
import random
from collections.abc import Hashable

import pytest

from holdfast.harness.foreign import edn
from holdfast.harness.foreign.edn import DEEPEST, LONGEST, forms
from holdfast.harness.foreign.operations import Malformed

CHARACTERS = "ab é€\"\\\n\t,;[]{}()#^'"


def leaf(rng: random.Random) -> tuple[str, Hashable]:
    """A text of EDN and its value."""
    number = rng.randrange(-(10**6), 10**6)
    text = "".join(rng.choices(CHARACTERS, k=rng.randrange(6)))
    escapes = {
        '"': '\\"',
        "\\": "\\\\",
        "\n": rng.choice(["\\n", "\n"]),
        "é": rng.choice(["\\u00e9", "é"]),
    }
    quoted = "".join(escapes.get(one, one) for one in text)
    return rng.choice(
        [
            ("nil", None),
            ("true", True),
            ("false", False),
            (f"{number}", number),
            (f"{number}N", number),
            (f"{number}.5", float(f"{number}.5")),
            (f"{number}.25M", float(f"{number}.25")),
            ("1e3", 1000.0),
            (":a/b", ":a/b"),
            ("word-?", "word-?"),
            ("##Inf", "##Inf"),
            ("\\a", "a"),
            ("\\newline", "newline"),
            (f'"{quoted}"', text),
        ]
    )


def value(rng: random.Random, depth: int) -> tuple[str, Hashable]:
    """A random value, deeper ones frozen."""
    if depth == 0 or rng.random() < 0.3:
        return leaf(rng)
    inner = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    space = rng.choice([" ", ", ", "\n", " ; [a {\n"])
    texts = space.join(text for text, _ in inner)
    values = tuple(one for _, one in inner)
    kind = rng.randrange(4)
    if kind == 0:
        return f"[{texts}]", values
    if kind == 1:
        return (
            f"({rng.choice(['', '^:x ', '#_ [1 (2)] ', '#t/A ', chr(39)])}{texts or 'nil'})",
            values or (None,),
        )
    if kind == 2:
        return f"#{{{texts}}}", frozenset(values)
    pairs = {f":k{n}": one for n, one in enumerate(values)}
    printed = space.join(f":k{n} {text}" for n, (text, _) in enumerate(inner))
    return f"{{{printed}}}", frozenset(pairs.items())


def read(text: str) -> list[object]:
    return [form for _, form in forms(io.BytesIO(text.encode()))]


@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
def test_random_values_are_read_as_they_were_printed(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edn, "CHUNK", chunk)
    rng = random.Random(chunk)
    for _ in range(60):
        made = [value(rng, 3) for _ in range(rng.randrange(1, 4))]
        text = "\n".join(f"{{:v {one}\n}}" for one, _ in made)
        assert read(text) == [{":v": one} for _, one in made], text
        assert read(f" [{text}]") == read(f"{{:x [1] :history ({text})}}") == read(text)


def test_the_line_of_a_form_is_that_on_which_it_begins() -> None:
    text = '1\n\n{:a "x\ny"\n}\n; more\n[2\n3] (4\n)'
    assert [line for line, _ in forms(io.BytesIO(text.encode()))] == [1, 3, 7, 8]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[1 2] [3]", [1, 2, (3,)]),
        ("[[1] 2]", [(1,), 2]),
        ("1 [2]", [1, (2,)]),
        ("{:history [1 2]} 3", [1, 2, 3]),
        ("{:history {:a 1}}", [{":history": frozenset({(":a", 1)})}]),
        ("{:a :history :b [1]}", [{":a": ":history", ":b": (1,)}]),
        ("#_ 1 2", [2]),
        ("#_ #_ 1 2 3", [3]),
        ("#_ [1] [2]", [2]),
        ("^:x ^{:y 1} [3]", [3]),
        ("'(1)", [1]),
        ("#inst \"2020\"", ["2020"]),
        ("[#_ [1 #_ 2 3] 4]", [4]),
        ("", []),
        ("[]", []),
        ("{} {}", [{}, {}]),
        ("\ufeff7", [7]),
    ],
)  # fmt: skip
def test_what_counts_as_a_form_at_the_top(text: str, found: list[object]) -> None:
    assert read(text) == found


DEEP = "(" * DEEPEST
WRONG: list[tuple[str | bytes, int, str]] = [
    ("\n]", 2, "unmatched ]"),
    ("{:a\n [1\n)}", 3, ") does not match the [ of line 2"),
    ("1 {:a\n 1 :b\n}", 3, "the map of line 1 has a key without a value"),
    ("1 {:a 1\n:a 2}", 2, "the map of line 1 has a key twice"),
    ("{:a 1}\n{:b [", 2, "the file ends inside the [ of this line"),
    ("\n[1", 2, "the file ends inside its outermost bracket: truncated?"),
    ('1\n"abc', 2, "unterminated string"),
    ("[1 #_]", 1, "nothing follows #_"),
    ("1 #tag", 1, "nothing follows #tag"),
    ("1e999", 1, "the number 1e999 is too large"),
    ("9" * 5000, 1, "a number of 5000 digits"),
    (f"1 {DEEP}(", 1, f"nested more than {DEEPEST} levels deep"),
    (b"1\n\n\xff", 3, "not UTF-8: "),
    ("1\n#<a", 2, "invalid EDN '#<a'"),
]


@pytest.mark.parametrize(("text", "line", "reason"), WRONG, ids=[one[2] for one in WRONG])
def test_a_mistake_is_told_with_its_line(text: str | bytes, line: int, reason: str) -> None:
    with pytest.raises(Malformed) as told:
        list(forms(io.BytesIO(text.encode() if isinstance(text, str) else text)))
    assert (told.value.line, told.value.reason[: len(reason)]) == (line, reason)


def test_the_deepest_form_and_the_longest_token_are_read() -> None:
    assert len(read(f"1 {'(' * (DEEPEST - 1)}{')' * (DEEPEST - 1)}")) == 2
    (found,) = read('"' + "a" * (LONGEST - 2) + '"')
    assert isinstance(found, str) and len(found) == LONGEST - 2
    with pytest.raises(Malformed, match=f"a token of more than {LONGEST} characters"):
        read("1 " + '"' + "a" * LONGEST * 2)


@pytest.mark.parametrize("chunk", [2, 5])
def test_a_text_that_is_split_within_a_character_is_read(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edn, "CHUNK", chunk)
    assert read('["\U0001f512€" 12345 :abc]') == ["\U0001f512€", 12345, ":abc"]
