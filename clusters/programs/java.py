"""Client programs for the JVM: compiled with javac against the jars of Debian's packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.clusters.programs.toolchain import Toolchain

JARS = Path("/usr/share/java")
NEEDED = (
    "curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
    "guava", "slf4j-api", "slf4j-nop", "jackson-core", "jackson-databind", "jackson-annotations",
    "netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver",
    "netty-transport", "netty-transport-native-epoll", "netty-transport-native-unix-common",
)  # fmt: skip
SMALL = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""One client of several on one machine."""


def _class_path() -> str:
    return os.pathsep.join(str(JARS / f"{name}.jar") for name in NEEDED)


def _compiled(sources: Sequence[Path], target: Path) -> list[str]:
    return ["javac", "-d", str(target), "-cp", _class_path(), *map(str, sources)]


def _started(program: str, target: Path) -> list[str]:
    return ["java", *SMALL, "-cp", f"{target}{os.pathsep}{_class_path()}", Path(program).stem]


JAVA = Toolchain(
    name="javac",
    commands=("java", "javac"),
    package="default-jdk-headless",
    sources=lambda program: sorted(program.parent.glob("*.java")),
    compiled=_compiled,
    environment=lambda cache: {},
    started=_started,
    within_s=120,
)
