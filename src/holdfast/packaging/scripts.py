"""The text of a script: a template of a shape, with the words of a library and names of the run.

Names of the run become literals; all other words are Holdfast's own.
"""

from __future__ import annotations

import itertools
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from holdfast.clusters.programs import debian, npm
from holdfast.packaging.servers import SERVERS
from holdfast.packaging.shapes import CALLS, ScriptShape

TEMPLATES = Path(__file__).with_name("templates")
SHOWS, NOT_SHOWN, CANNOT_RUN = 1, 0, 2
"""Exit codes of a script."""
VIOLATION = "VIOLATION: "
"""Begins the line in which a script names what it has shown."""
APT = "apt install"
PIP = "pip install --no-deps -r requirements.txt"
"""The packages are complete, and exactly those of the run, also where metadata wants others."""
GO_BUILD = "GO111MODULE=off GOPATH=/usr/share/gocode go build reproduce.go"
MOST_LINES, WIDTH = 60, 96
CODES = "exit code 1: shown, 0: not, 2: failed"
BEGIN = f'''"""$title

$begin    python reproduce.py$called  # {CODES}
"""

'''
END = """

try:
    said = $run
    said, code = (f"VIOLATION: {said}", 1) if said else ("not shown", 0)
except Exception as error:
    said, code = f"could not run: {error!r}", 2
print(said, flush=True)
sys.exit(code)
"""
BEGIN_JS = f"""// $title
//
$begin//   node reproduce.mjs$called  # {CODES}
"""
END_JS = """
const failed = (error) => console.log("could not run:", error) ?? process.exit(2);
const said = await main().catch(failed);
console.log(said ? "VIOLATION: " + said : "not shown");
process.exit(said ? 1 : 0);
"""
BEGIN_GO = f"""// $title
//
$begin//	./reproduce$called  # {CODES}
package main

"""
"""Of a program that panics, the exit code is 2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """How a script of a language is written and started.

    file      name of the script; called: the words that start it
    ending    of the name of a template
    mark      begins a line of its head
    begin     text before the template; end: text after it
    """

    file: str
    called: str
    ending: str
    mark: str
    begin: str
    end: str


LANGUAGES = {
    "python": Language(
        file="reproduce.py", called="python reproduce.py", ending="txt", mark="    ",
        begin=BEGIN, end=END,
    ),
    "javascript": Language(
        file="reproduce.mjs", called="node reproduce.mjs", ending="mjs.txt", mark="//   ",
        begin=BEGIN_JS, end=END_JS,
    ),
    "go": Language(
        file="reproduce.go", called="./reproduce", ending="go.txt", mark="//	",
        begin=BEGIN_GO, end="",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """What a script takes from a run.

    library   as in CALLS, without its version; package: with it, as in redis==8.1.0
    api       the interface, "" for programs
    lock      name of the lock
    lease     as a literal of Python: seconds, 0 or None
    renewals  how often the first owner renewed before the second one was granted the lock
    """

    library: str
    package: str
    api: str
    lock: str
    lease: str = "None"
    renewals: int = 0

    @property
    def language(self) -> str:
        """A key of LANGUAGES. Of the programs of Debian's packages, those in Go have shapes."""
        if self.library.startswith(npm.PREFIX):
            return "javascript"
        return "go" if self.library.startswith(debian.PREFIX) else "python"

    @property
    def called(self) -> str:
        """The key of its words in CALLS."""
        return f"{self.library}/{self.api}" if self.api else self.library


def file_name(filled: Filled) -> str:
    """Name of the script."""
    return LANGUAGES[filled.language].file


def commands(shape: ScriptShape, filled: Filled, install: bool) -> list[str]:
    """What a reader types: packages, if the script imports any, then servers, then the script."""
    server, language = SERVERS[shape.server], filled.language
    lines = []
    if install:
        deb = f"{APT} golang-go {filled.library.removeprefix(debian.PREFIX)}"
        lines = {"python": [PIP], "javascript": ["npm install"], "go": [deb, GO_BUILD]}[language]
    begin = server.begin
    if shape.tools:
        tools = " ".join(shape.tools)
        begin = f"{begin} {tools}" if begin.startswith(APT) else f"{APT} {tools}\n{begin}"
    lines = [*lines, *begin.strip().splitlines()]
    return [*lines, f"{LANGUAGES[language].called} {server.called}".rstrip()]


def script(name: str, shape: ScriptShape, filled: Filled) -> str:
    """The script of a shape for a library; KeyError if the shape does not have it."""
    server, language = SERVERS[shape.server], LANGUAGES[filled.language]
    own = {**CALLS[filled.called], **shape.libraries[filled.library]}
    *steps, _ = commands(shape, filled, install=bool(own["imports"]))
    comment = "// " if language.begin.startswith("//") else ""
    titles = textwrap.wrap(f"{filled.package}: {shape.title}.", WIDTH - len(comment))
    python = language.file.endswith(".py")
    words: Mapping[str, object] = {
        **{word: value.strip("\n") for word, value in own.items()},
        "title": f"\n{comment}".join(titles),
        "begin": "".join(f"{language.mark}{line}\n" for line in steps),
        "called": f" {server.called}" if server.called else "",
        "name": repr(filled.lock) if python else json.dumps(filled.lock, ensure_ascii=False),
        "lease": filled.lease,
        "renewals": filled.renewals,
    }
    body = (TEMPLATES / f"{name.replace('-', '_')}.{language.ending}").read_text()
    if not python:
        return Template(language.begin + body + language.end).substitute(words)
    run = "asyncio.run(main())" if "\nasync def main():" in body else "main()"
    return Template(language.begin + _with_sys(body) + language.end).substitute(words, run=run)


def _with_sys(body: str) -> str:
    """The body of a Python script with `import sys` among its first imports, sorted."""
    lines = body.splitlines(keepends=True)
    first = [*itertools.takewhile(lambda line: line.startswith(("import ", "from ")), lines)]
    imports = sorted(["import sys\n", *first], key=lambda line: (line.startswith("from"), line))
    rest = "".join(lines[len(first) :])
    return "".join(imports) + (rest if first else f"\n{rest}")
