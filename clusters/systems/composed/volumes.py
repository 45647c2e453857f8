"""The volumes of a service of a compose file."""

from __future__ import annotations

from pathlib import PurePosixPath

from holdfast.clusters.systems.composed.service import Volume

MODES = frozenset(("", "rw", "ro", "z", "Z"))
LONG = frozenset(("type", "source", "target", "read_only"))


def volumes(value: object) -> tuple[Volume, ...]:
    """The volumes of a list in the short or the long form. ValueError says what is wrong."""
    if not isinstance(value, list):
        raise ValueError("expected a list")
    return tuple(_long(one) if isinstance(one, dict) else _short(str(one)) for one in value)


def _short(text: str) -> Volume:
    """Such as data:/data, ./redis.conf:/etc/redis.conf:ro, /data."""
    source, separator, rest = text.partition(":")
    if not separator:
        return _volume("", source, read_only=False)
    at, _, mode = rest.partition(":")
    modes = set(mode.split(","))
    if modes - MODES:
        raise ValueError(f"{text}: unknown mode {mode}: expected ro or rw")
    return _volume(source, at, read_only="ro" in modes)


def _long(table: dict[str, object]) -> Volume:
    unknown = sorted(set(table) - LONG)
    if unknown:
        raise ValueError(f"key {unknown[0]!r} is not supported: expected {', '.join(sorted(LONG))}")
    if table.get("type") not in ("bind", "volume"):
        raise ValueError(f"type {table.get('type')!r} is not supported: expected bind or volume")
    source = str(table.get("source") or "")
    if table["type"] == "bind" and "/" not in source:
        source = f"./{source}"
    return _volume(source, str(table.get("target", "")), read_only=table.get("read_only") is True)


def _volume(source: str, at: str, *, read_only: bool) -> Volume:
    if not at.startswith("/") or ".." in PurePosixPath(at).parts:
        raise ValueError(f"{source}:{at}: expected an absolute path in the container")
    if not source.startswith((".", "/", "~")):
        if read_only:
            raise ValueError(f"{source}:{at}: a volume that is read-only would stay empty")
        return Volume(at=at, name=source)
    path = PurePosixPath(source)
    if path.is_absolute() or source.startswith("~") or ".." in path.parts:
        raise ValueError(f"{source}: only files below the folder of the compose file are mounted")
    if not read_only:
        raise ValueError(
            f"{source}: a run does not write to your files: add :ro, or use a named volume"
        )
    return Volume(at=at, file=str(path))
