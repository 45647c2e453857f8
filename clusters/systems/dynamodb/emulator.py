"""Starts the emulator of the package `moto` on a node, serialized to one request at a time.

DynamoDB's conditional writes are atomic. Those of moto's own server, with a thread per connection,
are not: two puts on the condition that there is no record may both be accepted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load

APPLICATION = "moto.moto_server.werkzeug_app"
Application = Callable[[dict[str, Json], Callable[..., object]], Iterable[bytes]]


def one_by_one(application: Application) -> Application:
    """The same application; a request waits until its predecessor's response is complete."""
    turn = threading.Lock()

    def answer(environ: dict[str, Json], start: Callable[..., object]) -> Iterable[bytes]:
        with turn:
            return [b"".join(application(environ, start))]

    return answer


def main(address: str, port: str) -> None:
    """Serves until it is killed."""
    made = load(f"{APPLICATION}:DomainDispatcherApplication")(
        load(f"{APPLICATION}:create_backend_app")
    )
    serve: Any = load("werkzeug.serving:run_simple")
    handler = load(f"{APPLICATION}:MotoRequestHandler")
    serve(address, int(port), one_by_one(made), threaded=True, request_handler=handler)


if __name__ == "__main__":
    main(*sys.argv[1:])
