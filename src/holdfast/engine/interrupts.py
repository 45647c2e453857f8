"""What a command says of ^C: where things are, and how to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def saying(words: str) -> Iterator[None]:
    """A KeyboardInterrupt from inside gets these words, unless it has some already: the innermost
    knows best. The command line prints them (`commands.main`)."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if stop.args:
            raise
        raise KeyboardInterrupt(words) from stop
