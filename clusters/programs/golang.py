"""Client programs in Go: compiled against the sources of Debian's packages, without modules.

Nothing is fetched: GO111MODULE=off makes the compiler look for imports in GOPATH only, where
Debian's packages have theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.clusters.programs.toolchain import Toolchain

SOURCES = "/usr/share/gocode"
SHARED = "protocol.go"
"""What every client program is compiled with, beside its own file."""


def _environment(cache: Path) -> Mapping[str, str]:
    return {
        "GO111MODULE": "off",
        "GOPATH": SOURCES,
        "GOCACHE": str(cache),
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }


def _compiled(sources: Sequence[Path], target: Path) -> list[str]:
    program = target / sources[-1].stem
    return ["go", "build", "-o", str(program), *map(str, sources)]


GO = Toolchain(
    name="go",
    commands=("go",),
    package="golang-go",
    sources=lambda program: (program.with_name(SHARED), program),
    compiled=_compiled,
    environment=_environment,
    started=lambda program, target: [str(target / Path(program).stem)],
    within_s=900,
    note="the first time, its libraries too: a minute",
)
