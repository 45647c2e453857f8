"""Starts the emulator of the package `moto` on a node, serialized to one request at a time.

Conditional writes of DynamoDB and S3 are atomic. Those of moto's own server, with a thread per
connection, are not: two puts on the condition that there is no record may both be accepted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Command, Node, Place

PINS = (
    "moto==5.2.5", "flask==3.1.3", "flask-cors==6.0.5", "werkzeug==3.1.9", "jinja2==3.1.6",
    "markupsafe==3.0.4", "itsdangerous==2.2.0", "blinker==1.9.0", "click==8.5.1",
    "boto3==1.44.5", "botocore==1.44.5", "s3transfer==0.19.3", "jmespath==1.1.0",
    "python-dateutil==2.9.0.post0", "six==1.17.0", "urllib3==2.8.0", "requests==2.34.2",
    "responses==0.26.3", "pyyaml==6.0.3", "certifi==2026.10.18", "idna==3.20",
    "charset-normalizer==3.5.2", "xmltodict==1.0.4", "cryptography==50.0.2", "cffi==2.1.1",
    "pycparser==3.12", "py-partiql-parser==0.6.3",
)  # fmt: skip
"""The packages that it needs, and the clients of its services."""
MODULE = "holdfast.clusters.systems.moto_server"
APPLICATION = "moto.moto_server.werkzeug_app"
Application = Callable[[dict[str, Json], Callable[..., object]], Iterable[bytes]]


def one_by_one(application: Application) -> Application:
    """The same application; a request waits until its predecessor's response is complete."""
    turn = threading.Lock()

    def answer(environ: dict[str, Json], start: Callable[..., object]) -> Iterable[bytes]:
        with turn:
            return [b"".join(application(environ, start))]

    return answer


def moto_server(node: Node, place: Place, port: int) -> Command:
    """How to start it on a node; it keeps everything in memory."""
    words = ("-P", "-m", MODULE, node.address, str(port))
    log = place.run_dir / "logs" / node.name / "moto.log"
    return Command(argv=(node.python, "-S", *words), log=log)


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
