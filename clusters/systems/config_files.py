"""The user's own configuration of a system's servers, with what Holdfast must own refused.

It is the text of a file, in the option `config`, whose first line names the file (`#: redis.conf`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol, runtime_checkable

from holdfast.harness.plans.plan import FILE_NAMED

CONFIG = "config"
ADDRESS = "Holdfast sets the addresses and ports of the servers"
FOLDER = "Holdfast sets the folders of the data"
LOG = "Holdfast reads the log where it put it"
IN_FRONT = "the server must stay in the foreground as the process that faults act on"
CREDENTIALS = "the clients log in without credentials"
OTHER_FILES = "other files are not on the nodes: put their lines here"
NESTED = "only keys with one value are read"
QUOTED = re.compile(r"'((?:[^']|'')*)'|\"([^\"]*)\"")


@runtime_checkable
class Configurable(Protocol):
    """A System whose servers can be started with a configuration file of the user: its text is the
    option CONFIG."""

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """One line for each setting that must be left to Holdfast."""
        ...


class Line(NamedTuple):
    """A setting of a file; number: of its line, the first is 1."""

    number: int
    key: str
    value: str


def by_words(text: str) -> Iterator[Line]:
    """Lines as of Redis: a key, blanks, its values."""
    for number, line in _lines(text):
        key, _, value = line.partition(" ")
        yield Line(number, key.lower(), value.strip())


def by_equals(text: str) -> Iterator[Line]:
    """Lines as of ZooKeeper and PostgreSQL: `key = value`, of the latter also without `=`."""
    for number, line in _lines(text):
        match = re.match(r"([\w.]+)\s*=?\s*(.*)", line)
        if match is None:
            yield Line(number, line, "")
            continue
        quoted = QUOTED.match(match[2])
        plain = match[2].partition("#")[0].strip()
        value = plain if quoted is None else (quoted[1] or quoted[2] or "").replace("''", "'")
        yield Line(number, match[1], value)


def by_colons(text: str) -> Iterator[Line]:
    """Lines as of etcd's file in YAML, of whose keys each has one value; a nested one has none."""
    for number, line in _lines(text, keep_indent=True):
        match = re.fullmatch(r"([\w-]+):(?:\s+(.*))?", line)
        if match is None or line.startswith((" ", "-")):
            yield Line(number, line.strip(), "")
            continue
        value = re.sub(r"\s+#.*", "", match[2] or "").strip()
        quoted = QUOTED.fullmatch(value)
        yield Line(number, match[1], (quoted[1] or quoted[2] or "") if quoted else value)


def _lines(text: str, *, keep_indent: bool = False) -> Iterator[tuple[int, str]]:
    """The lines that are no comments, with their numbers in the user's file."""
    skipped = int(text.startswith(FILE_NAMED))
    for number, line in enumerate(text.splitlines(), 1 - skipped):
        plain = line.rstrip() if keep_indent else line.strip()
        if plain.strip() and not plain.lstrip().startswith(("#", "---")):
            yield number, plain


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigFile:
    """How the servers of a system are configured.

    lines   the settings of a text
    owned   pattern of keys, in lower case -> why Holdfast must own them
    """

    lines: Callable[[str], Iterator[Line]]
    owned: Mapping[str, str]

    def problems(self, options: Mapping[str, str]) -> list[str]:
        """One line for each setting that Holdfast must own."""
        text = options.get(CONFIG, "")
        problems = []
        for line in self.lines(text):
            why = self._why(line.key.lower())
            if why:
                problems.append(f"--config {name_of(text)}:{line.number}: {line.key}: {why}")
        return problems

    def values(self, options: Mapping[str, str]) -> dict[str, str]:
        """The settings; the last one of a key counts."""
        return {line.key: line.value for line in self.lines(options.get(CONFIG, ""))}

    def _why(self, key: str) -> str:
        return next((why for like, why in self.owned.items() if fnmatchcase(key, like)), "")


def name_of(text: str) -> str:
    """The name of the user's file."""
    first = text.partition("\n")[0]
    return first.removeprefix(FILE_NAMED) if first.startswith(FILE_NAMED) else CONFIG


def chosen_by(option: str) -> str:
    """Why a setting that an option of the system chooses is refused."""
    return f"the promises follow from it: choose it with --set {option}=..."
