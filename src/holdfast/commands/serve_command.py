"""`holdfast serve`: browse runs in a browser."""

from __future__ import annotations

import ipaddress
import re
import secrets
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.commands.options import Command, Whole, setting
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.runs import signals
from holdfast.harness.runs.directory import RUNS

if TYPE_CHECKING:
    from holdfast.serve.server import Server

SHORTEST = 16


@click.command(
    cls=Command,
    examples=("holdfast serve", "holdfast serve --port 0 --runs nightly/runs"),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=Whole(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0: any free one.",
)
@setting("--runs", "out", default=RUNS, help="Folder of runs.", envvar="HOLDFAST_OUT")
@click.option("--allow-remote", is_flag=True, help="Accept other machines, with a token.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    show_default="a new token, printed",
    help="File with the token.",
)
def command(host: str, port: int, out: str, allow_remote: bool, token_file: Path | None) -> int:
    """Browse runs in a web browser: filter, compare two, watch a live one, download as zip.

    Read-only. Stop it with ^C.
    """
    from holdfast.harness.campaigns.run_index import RunIndex
    from holdfast.serve.server import Server

    host = host.removeprefix("[").removesuffix("]") if ":" in host else host
    root = Path(out)
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder; name one with --runs")
    token = _token(host, token_file, allow_remote=allow_remote)
    shelf = RunIndex(root, [sys.executable, "-P", "-m", "holdfast.serve.judged_so_far"])
    try:
        server = Server((host, port), shelf, token)
    except OSError as error:
        raise EnvironmentFailed(
            f"cannot listen at {host} port {port}: {error.strerror}; try another --port"
        ) from error
    with server:
        place = f"http://{server.place}/"
        made = f"?token={token}" if token and token_file is None else ""
        asked = _ends_on_interrupt(server)
        click.echo(f"serving {root} at {place}{made} (^C ends it)")
        server.serve_forever(poll_interval=0.2)
    return 130 if asked.is_set() else 0


def _ends_on_interrupt(server: Server) -> threading.Event:
    """Set by ^C. An exception could be raised where Python drops it."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        asked.set()
        threading.Thread(target=server.shutdown, daemon=True).start()

    main = threading.current_thread() is threading.main_thread()
    if main and not signals.disregarded(signal.SIGINT):
        signal.signal(signal.SIGINT, ask)
    return asked


def _token(host: str, file: Path | None, *, allow_remote: bool) -> str:
    """The token that a request must carry; none on loopback without --allow-remote.

    UsageError for an address that others reach without --allow-remote, or a token too short.
    """
    if not allow_remote:
        if not _loopback(host):
            raise UsageError(
                f"--host {host} is reachable from other machines: add --allow-remote (clients"
                " then need a token), or use 127.0.0.1"
            )
        if file is not None:
            raise UsageError("--token-file requires --allow-remote")
        return ""
    if file is None:
        return secrets.token_urlsafe(24)
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{{SHORTEST},}}", token):
        raise UsageError(
            f"{file}: invalid token: expected one line of at least {SHORTEST} of A-Z a-z 0-9 - _"
        )
    return token


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
