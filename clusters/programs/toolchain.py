"""How client programs of a compiled language are made and started."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The compiler of a language, as one of Debian's packages has it.

    name         of the compiler, as messages name it
    commands     what has to be installed
    package      Debian's package of them
    sources      client program -> the files that it is made of
    compiled     (sources, folder) -> the words that compile them into the folder
    environment  folder for the compiler's own cache -> variables of the compiler
    started      (client program, folder) -> the words that start it
    within_s     limit of a compilation
    note         why a first compilation takes long; "" if it does not
    """

    name: str
    commands: Sequence[str]
    package: str
    sources: Callable[[Path], Sequence[Path]]
    compiled: Callable[[Sequence[Path], Path], Sequence[str]]
    environment: Callable[[Path], Mapping[str, str]]
    started: Callable[[str, Path], list[str]]
    within_s: int
    note: str = ""

    def missing(self) -> str | None:
        """Why this machine cannot compile and run the programs, and what to do; None if it can."""
        lacking = [name for name in self.commands if shutil.which(name) is None]
        if lacking:
            return f"{' and '.join(lacking)} missing: install Debian's package {self.package}"
        return None
