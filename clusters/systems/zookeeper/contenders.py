"""Whether an acquire of kazoo's Lock that did not succeed left its node behind."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.recipe.lock import Lock


def left_behind(client: KazooClient, lock: Lock, within_s: float) -> bool:
    """Whether a node of this lock object contends.

    kazoo deletes the node of an acquire that times out, and ignores all errors of that: a node that
    stays becomes the holder. The read follows a sync, so that it sees all that was requested
    before, also over a connection that was lost. Errors: as kazoo's; then it is unknown.
    """
    try:
        client.sync_async(lock.path).get(timeout=within_s)
        names = client.get_children_async(lock.path).get(timeout=within_s)
    except NoNodeError:
        return False
    return any(name.startswith(lock.prefix) for name in names)
