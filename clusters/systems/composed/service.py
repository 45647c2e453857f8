"""What a run takes from a service of a compose file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """A folder of the run at `at`, by the name of its volume ("" for one without), or, read-only,
    a file or folder beside the compose file."""

    at: str
    name: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOf:
    """How its image is built; folder: relative to the compose file."""

    folder: str
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A service.

    after     the services that start before it
    ready     those of them that must be ready then
    aliases   the names by which others reach it; the first is its host name
    ports     those that it listens on, as far as the file says
    health    words of its health test
    """

    name: str
    image: str = ""
    build: BuildOf | None = None
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    tmpfs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    health: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    user: str = ""
    folder: str = ""
