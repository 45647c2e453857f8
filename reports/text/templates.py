"""The environment of all templates: everything is escaped, and filters shorten untrusted text."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import re
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from types import CodeType

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judgement
from holdfast.reports.text import formatting

SCRIPT = "".join(
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "script").iterdir())
)


DIGEST = b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""Hash of the script, for the page's content security policy."""


OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
AFTER_COMMA = re.compile(r"(?<=,)")
IN_NAME = re.compile(r"(?<=[:@/_])|(?<=\.)(?!py\b|\d)|(?<=[a-z])(?=[A-Z])")
TEMPLATES = Path(__file__).parents[1] / "templates"


def state(judgement: Judgement) -> str:
    """Style of a verdict: "holds", "broken", "limit" or "unknown"."""
    if judgement.verdict is Verdict.VIOLATED:
        return "broken" if judgement.promised else "limit"
    return "holds" if judgement.verdict is Verdict.HOLDS else "unknown"


class CompiledTemplates(BytecodeCache):
    """Code of the templates: of this process, and in a folder as Python keeps that of modules.

    Every report has its own environment, whose globals depend on the run. The code depends on the
    source and on what all environments share, which is in this module.

    folder   beside the templates: who may write there can change them too
    """

    def __init__(self, folder: Path) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}
        self._folder = folder

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))
        if bucket.code is None:
            with suppress(OSError, EOFError, pickle.PickleError):
                content = self._file(bucket).read_bytes()
                stamp = _stamp(bucket)
                if content.startswith(stamp):
                    # Checks the versions of Python and of the library, and the template's source.
                    bucket.bytecode_from_string(content[len(stamp) :])

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is None:
            return
        self._codes[bucket.key, bucket.checksum] = bucket.code
        if sys.dont_write_bytecode:
            return
        target = self._file(bucket)
        part = target.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            part.write_bytes(_stamp(bucket) + bucket.bytecode_to_string())
            part.replace(target)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _file(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}.jinja"


@functools.cache
def _source() -> bytes:
    """This module, on whose environment and filters the code of a template depends."""
    return Path(__file__).read_bytes()


def _stamp(bucket: Bucket) -> bytes:
    """What the code in a file was compiled of."""
    return hashlib.sha256(_source() + bucket.checksum.encode()).digest()


COMPILED = CompiledTemplates(TEMPLATES / "__pycache__")


def template_environment() -> Environment:
    """Templates that escape everything, with the filters for untrusted text."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=COMPILED,
    )
    environment.filters |= FILTERS
    environment.globals |= {"count": formatting.count, "state": state}
    return environment


def _say(text: object, limit: int = formatting.DISPLAY_LIMIT) -> Markup:
    """Untrusted text: escaped, shortened, isolated from the text direction around it."""
    return Markup("<bdi>") + escape(formatting.plain(text, limit)) + Markup("</bdi>")


def _words(text: object, limit: int = formatting.DISPLAY_LIMIT) -> Markup:
    """A command: each word apart, so that a line does not end within one, after "--"; a long one is
    broken after a comma."""
    words = formatting.plain(text, limit).split(" ")
    return Markup(" ").join(
        Markup('<span class="arg">{}</span>').format(_parts(AFTER_COMMA, word)) for word in words
    )


def _parts(between: re.Pattern[str], text: str) -> Markup:
    """Text that may be broken between its parts."""
    return Markup("<wbr>").join(between.split(text))


def _name(text: object, limit: int = formatting.DISPLAY_LIMIT) -> Markup:
    """Names of systems, which are rather broken between their parts than within one:
    app.|locks.py:|Renewed|Lock@|redis."""
    parts = _parts(IN_NAME, formatting.plain(text, limit))
    return Markup("<bdi>") + parts + Markup("</bdi>")


def _options(text: object, limit: int = formatting.DISPLAY_LIMIT) -> Markup:
    """A sentence that names options: no line ends within one, after "--"."""
    plain = formatting.plain(text, limit)
    pieces = zip(OPTION.split(plain), [*OPTION.findall(plain), ""], strict=True)
    option = Markup('<span class="option">{}</span>')
    shown = (escape(before) + (option.format(name) if name else "") for before, name in pieces)
    return Markup("<bdi>") + Markup("").join(shown) + Markup("</bdi>")


FILTERS = {
    "words": _words,
    "name": _name,
    "options": _options,
    "say": _say,
    "sentence": formatting.sentence,
    "capital": lambda text: str(text)[:1].upper() + str(text)[1:],
    "stopped": formatting.stopped,
    "span": formatting.span,
    "number": formatting.number,
    "measured": formatting.evidence,
    "percent": formatting.percent,
    "spaced": lambda text: formatting.plain(str(text).replace("-", " ").replace("_", " "), 60),
}
"""Filters of templates."""
