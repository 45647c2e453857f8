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

from holdfast.clusters.programs import npm
from holdfast.packaging.servers import SERVERS
from holdfast.packaging.shapes import CALLS, Shape

TEMPLATES = Path(__file__).with_name("templates")
SHOWS, NOT_SHOWN, CANNOT_RUN = 1, 0, 2
"""Exit codes of a script."""
VIOLATION = "VIOLATION: "
"""Begins the line in which a script names what it has shown."""
PIP = "pip install --no-deps -r requirements.txt"
"""The packages are complete, and exactly those of the run, also where metadata wants others."""
MOST_LINES, WIDTH = 60, 96
CODES = "exit code 1: shown, 0: not, 2: failed"
BEGIN = f'''"""$title

$install$begin    python reproduce.py$called  # {CODES}
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
//   npm install
$begin//   node reproduce.mjs$called  # {CODES}
"""
END_JS = """
const failed = (error) => console.log("could not run:", error) ?? process.exit(2);
const said = await main().catch(failed);
console.log(said ? "VIOLATION: " + said : "not shown");
process.exit(said ? 1 : 0);
"""


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
    def javascript(self) -> bool:
        """Whether the library is one of npm."""
        return self.library.startswith(npm.PREFIX)

    @property
    def called(self) -> str:
        """The key of its words in CALLS."""
        return f"{self.library}/{self.api}" if self.api else self.library


def file_name(filled: Filled) -> str:
    """Name of the script."""
    return "reproduce.mjs" if filled.javascript else "reproduce.py"


def script(name: str, shape: Shape, filled: Filled) -> str:
    """The script of a shape for a library; KeyError if the shape does not have it."""
    server, javascript = SERVERS[shape.server], filled.javascript
    own = {**CALLS[filled.called], **shape.libraries[filled.library]}
    mark = "//   " if javascript else "    "
    titles = textwrap.wrap(f"{filled.package}: {shape.title}.", WIDTH - 4 * javascript)
    words: Mapping[str, object] = {
        **{word: value.strip("\n") for word, value in own.items()},
        "install": f"{mark}{PIP}\n" if own["imports"] else "",
        "title": f"\n{mark[:2].strip()} ".join(titles).replace("\n ", "\n"),
        "begin": f"{mark}{server.begin}\n" if server.begin else "",
        "called": f" {server.called}" if server.called else "",
        "name": json.dumps(filled.lock) if javascript else repr(filled.lock),
        "lease": filled.lease,
        "renewals": filled.renewals,
    }
    ending = "mjs.txt" if javascript else "txt"
    body = (TEMPLATES / f"{name.replace('-', '_')}.{ending}").read_text()
    if javascript:
        return Template(BEGIN_JS + body + END_JS).substitute(words)
    run = "asyncio.run(main())" if "\nasync def main():" in body else "main()"
    return Template(BEGIN + _with_sys(body) + END).substitute(words, run=run)


def _with_sys(body: str) -> str:
    """The body of a Python script with `import sys` among its first imports, sorted."""
    lines = body.splitlines(keepends=True)
    first = [*itertools.takewhile(lambda line: line.startswith(("import ", "from ")), lines)]
    imports = sorted(["import sys\n", *first], key=lambda line: (line.startswith("from"), line))
    rest = "".join(lines[len(first) :])
    return "".join(imports) + (rest if first else f"\n{rest}")
