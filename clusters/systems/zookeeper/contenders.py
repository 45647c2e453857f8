"""Whether an acquire of a recipe of kazoo that did not succeed left a node behind."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.recipe.lock import Lock

PAUSE_S = 0.05
"""between two reads, where the connection was lost"""


def left_behind(client: KazooClient, lock: Lock, within_s: float) -> bool:
    """Whether a node of this lock object contends: kazoo deletes the node of an acquire that times
    out, and ignores all errors of that. A node that stays becomes the holder."""
    return any_left(client, lock.path, [lock.prefix], within_s)


def any_left(client: KazooClient, path: str, begins: Sequence[str], within_s: float) -> bool:
    """Whether a node below a path begins with one of some texts.

    The read follows a sync, so that it sees all that was requested before, also over a connection
    that was lost; it is repeated over the next one, until `within_s` is over. Errors: as kazoo's;
    then it is unknown.
    """
    until_s = time.monotonic() + within_s
    while True:
        try:
            client.sync_async(path).get(timeout=max(until_s - time.monotonic(), 0))
            children = client.get_children_async(path)
            names = children.get(timeout=max(until_s - time.monotonic(), 0))
        except NoNodeError:
            return False
        except ConnectionLoss:
            if time.monotonic() + PAUSE_S >= until_s:
                raise
            time.sleep(PAUSE_S)
            continue
        return any(name.startswith(tuple(begins)) for name in names)
