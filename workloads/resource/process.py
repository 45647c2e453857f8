"""The process of the protected resource: `python -S -m holdfast.workloads.resource.process CONFIG`.

CONFIG is a JSON file. A resource that is started again reads the rows of its earlier processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast.harness.client.resource_replies import PORT
from holdfast.harness.core.waiting import until
from holdfast.harness.recording import segments
from holdfast.harness.recording.phase import END, Phase
from holdfast.workloads.resource.mutants import STORES
from holdfast.workloads.resource.server import LIMIT, Server, Store, replay


def store_type(mutant: str) -> type[Store]:
    """The store, or one with a planted bug; KeyError for an unknown bug."""
    if not mutant:
        return Store
    return STORES[mutant]


async def _serve(config: dict[str, Any], store: Store, recorder: segments.Recorder) -> None:
    server = await asyncio.start_server(
        Server(store, recorder).serve, config["address"], PORT, limit=LIMIT, reuse_address=True
    )
    phase = Phase(Path(config["phase"]), writable=False)
    recorder.tell(segments.READY)
    await until(lambda: phase.get() == END, within_ns=config["over_ns"])
    server.close()
    recorder.tell(segments.DONE)


def main(argv: list[str]) -> int:
    """Serve until the run ends. A restarted resource records with a new writer name."""
    config = json.loads(Path(argv[1]).read_text())
    store = store_type(config.get("mutant", ""))(config["mode"])
    directory = Path(config["history"])
    for earlier in config["earlier"]:
        replay(directory, earlier, store)
    if config["earlier"]:
        store.restarted()
    meta = {"node": config["node"], "processes": [], "pid": os.getpid(), "role": "resource"}
    with segments.Recorder(directory, config["writer"], meta) as recorder:
        asyncio.run(_serve(config, store, recorder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
