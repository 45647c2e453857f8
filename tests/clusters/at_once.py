"""Trials of adapters, several at a time: each waits for leases and timeouts most of its time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

AT_ONCE = 2
Row = dict[str, Any]
Trials = Mapping[tuple[str, ...], "Future[list[Row]]"]
"""The parameters of a test -> the rows of its trial, which may be still running."""


@contextmanager
def running(
    request: pytest.FixtureRequest,
    folders: pytest.TempPathFactory,
    rows_of: Callable[..., list[Row]],
    names: Sequence[str],
) -> Iterator[Trials]:
    """Trials of the session's tests that use the fixture, by the values of these parameters.

    rows_of   called with a folder, the first three numbers of addresses of its own, and the values
    """
    wanted = dict.fromkeys(
        tuple(str(item.callspec.params[name]) for name in names)
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and request.fixturename in item.fixturenames
    )
    base = f"127.{1 + os.getpid() % 250}"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made: Trials = {
            trial: pool.submit(rows_of, folders.mktemp("trial"), f"{base}.{number}", *trial)
            for number, trial in enumerate(wanted, 10)
        }
        try:
            yield made
        finally:
            pool.shutdown(cancel_futures=True)
