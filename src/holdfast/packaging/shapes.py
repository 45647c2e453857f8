"""The shapes of scripts: which one suits a run is decided by what the run shows.

One shape per way in which a bug shows; `shapes.toml` has them, `templates/` their text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec


class ScriptShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A script for one way in which a bug shows.

    property    the property that the run violates
    options     options that the run has, defaults included
    faults      kinds of fault of which one took effect, as KIND, KIND:FUNCTION (a thread was
                held there), KIND:gone or KIND:held (what it did to its victim at a system call);
                (): none is needed
    cancelled   the call that a fault cancelled last before the finding, "" for any
    server      key of `servers.SERVERS`; tools: other programs that the script starts
    package     the servers, if they have the bug and not the library of the run, "" else
    title       the bug in half a sentence, after the name of the library
    expected    what should happen instead; how: what the script does to show it
    libraries   library -> its words in the template, besides those of CALLS
    """

    property: str
    server: str
    title: str
    expected: str
    how: str
    package: str = ""
    tools: tuple[str, ...] = ()
    options: dict[str, str] = {}
    faults: tuple[str, ...] = ()
    cancelled: str = ""
    libraries: dict[str, dict[str, str]]

    def suits(self, library: str, options: Mapping[str, str], kinds: frozenset[str]) -> bool:
        """Whether it can show a bug of a library that was used so, under these kinds of fault."""
        return (
            library in self.libraries
            and self.options.items() <= options.items()
            and (not self.faults or not kinds.isdisjoint(self.faults))
        )


class PackagedSystem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run of a system without a library tests.

    library   the library of Holdfast's own client, or "" if the servers have the bug; then:
    package   their name; imports: the library that the script uses, "" for none
    programs  package of the package index that has the servers of a run whose option `version`
              names a release, "" for none
    """

    library: str = ""
    package: str = ""
    imports: str = ""
    programs: str = ""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    calls: dict[str, dict[str, str]]
    shapes: dict[str, ScriptShape]
    impossible: dict[str, str]
    systems: dict[str, PackagedSystem]


_TABLE = msgspec.toml.decode(Path(__file__).with_name("shapes.toml").read_bytes(), type=_Table)
CALLS: Mapping[str, Mapping[str, str]] = _TABLE.calls
"""library/api -> words of a template: its imports and how it is called."""
SHAPES: Mapping[str, ScriptShape] = _TABLE.shapes
SYSTEMS: Mapping[str, PackagedSystem] = _TABLE.systems
"""System whose servers are what is packaged -> its row."""
IMPOSSIBLE: Mapping[str, str] = _TABLE.impossible
"""Kind of fault -> what a script would have to do."""
