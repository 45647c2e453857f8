"""An operator's requests to an etcd cluster by its JSON gateway.

That is: members, leadership, compaction, defragmentation, and empty writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from holdfast.clusters.systems.etcd import PORT
from holdfast.clusters.systems.etcd.authentication import ROOT
from holdfast.clusters.systems.etcd.json_gateway import (
    Body,
    NoAnswer,
    NotSent,
    Refused,
    Server,
    encoded,
)
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json

WITHIN_S = 2.0
MAINTAINED_S = 5.0
TRIES = 10
ADD_TRIES = 30
"""etcd adds no member before all others have been connected for 5 s ("unhealthy cluster")."""
AGAIN_S = 0.3
NOT_LEADER = "etcdserver: not leader"
KEY, AT_ONCE = "holdfast-advance", 32


async def remove(name: str, others: Sequence[str]) -> str:
    """Removes the member of a name; its id. Errors: EnvironmentFailed."""
    members = (await _ask(others, "/v3/cluster/member/list", {})).get("members", [])
    id = next((str(one["ID"]) for one in members if one.get("name") == name), "")
    if not id:
        raise EnvironmentFailed(f"etcd: no member is called {name}")
    await _ask(others, "/v3/cluster/member/remove", {"ID": id})
    return id


async def add(peer_url: str, others: Sequence[str]) -> str:
    """Adds a member by the URL of its peers; its id. Errors: EnvironmentFailed."""
    body: Body = {"peerURLs": [peer_url]}
    added = await _ask(others, "/v3/cluster/member/add", body, tries=ADD_TRIES)
    return str(added["member"]["ID"])


async def transfer(leader: str, others: Sequence[str]) -> None:
    """Transfers the leadership to the first member with one of these names. Errors:
    EnvironmentFailed.

    A leader may transfer it and give no response, and refuses the repeated request as another
    member's: then nothing is left to request.
    """
    members = (await _ask([leader], "/v3/cluster/member/list", {})).get("members", [])
    ids = {one.get("name"): str(one["ID"]) for one in members}
    to = next((ids[name] for name in others if name in ids), None)
    if to is None:
        raise EnvironmentFailed("etcd: there is no other member")
    path = "/v3/maintenance/transfer-leadership"
    await _ask([leader], path, {"targetID": to}, done=NOT_LEADER)


async def compact(address: str, revision: int) -> None:
    """Compacts the history up to a revision; its data are deleted after the response. Errors:
    EnvironmentFailed."""
    await _once(address, "/v3/kv/compaction", {"revision": str(revision)})


async def defragment(address: str) -> None:
    """Rewrites the file of one member, which does nothing else meanwhile. Errors:
    EnvironmentFailed."""
    await _once(address, "/v3/maintenance/defragment", {})


async def _once(address: str, path: str, body: Mapping[str, Json]) -> Body:
    """The response to a request that is sent once."""
    server = Server(address, PORT, ROOT)
    try:
        return await server.ask(path, body, MAINTAINED_S)
    except (NotSent, NoAnswer, Refused) as error:
        raise EnvironmentFailed(f"etcd: {path.rpartition('/')[2]} failed: {error}") from error
    finally:
        server.close()


async def write(addresses: Sequence[str], times: int) -> None:
    """Writes a key of no lock so many times. Errors: EnvironmentFailed."""
    key = {"key": encoded(KEY), "value": encoded("")}
    for done in range(0, times, AT_ONCE):
        share = min(AT_ONCE, times - done)
        await asyncio.gather(*(_ask(addresses, "/v3/kv/put", key) for _ in range(share)))


async def _ask(
    others: Sequence[str],
    path: str,
    body: Mapping[str, Json],
    *,
    done: str = "",
    tries: int | None = None,
) -> Body:
    """The response of the first member that carries it out; retried while there is no leader.

    done    the refusal after which there is nothing left to do
    tries   number of tries; None: TRIES
    """
    why = "no other member"
    for _ in range(TRIES if tries is None else tries):
        for address in others:
            server = Server(address, PORT, ROOT)
            try:
                return await server.ask(path, body, WITHIN_S)
            except Refused as error:
                why = str(error)
                if done and why == done:
                    return {}
            except (NotSent, NoAnswer) as error:
                why = str(error)
            finally:
                server.close()
        await asyncio.sleep(AGAIN_S)
    raise EnvironmentFailed(f"etcd: {path.rpartition('/')[2]} failed: {why}")
