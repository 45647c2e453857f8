"""HTTP server of `holdfast serve`: read-only, without scripts of its own, trusts no request.

A URL names a run by an id from the listed folder; a request never becomes a path.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO
from urllib.parse import parse_qs, urlencode, urlsplit

from holdfast.catalogue import VIRTUAL_TIME
from holdfast.harness.campaigns.run_index import Entry, RunIndex
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.runs import files
from holdfast.reports.many import browse
from holdfast.reports.text.templates import DIGEST, TEMPLATES

POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline';"
    f" img-src data:; script-src 'sha256-{DIGEST}'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""Policy of a report, which may come from anywhere: its own origin and one known script."""
COOKIE = "holdfast"
MOST_FIELDS = 40
"""Fields of a query; a page has fewer than ten."""
LOG_TAIL = 1 << 20
ZIP_BYTES = 2 << 30
VERDICT_WITHIN_S = 60
LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpReply:
    """A response: `body` as bytes, or a file that is sent and closed."""

    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    body: bytes | IO[bytes] = b""
    policy: str = POLICY
    headers: dict[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Serves a run index. `token` empty: loopback only, with a loopback Host header."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], shelf: RunIndex, token: str = "") -> None:
        self.shelf, self.token = shelf, token
        host, port = address
        if ":" in host:
            # An address of IPv6 may name its interface too: fe80::1%eth0.
            self.address_family = socket.AF_INET6
            found = socket.getaddrinfo(host, port, socket.AF_INET6, socket.SOCK_STREAM)
            super().__init__(found[0][4], HttpHandler)  # type: ignore[arg-type]
        else:
            super().__init__(address, HttpHandler)

    @property
    def place(self) -> str:
        """Host and port as in a URL."""
        host, port = self.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def known_host(self, told: str) -> bool:
        """DNS rebinding: without a token the Host header is checked."""
        port = self.server_address[1]
        return bool(self.token) or told in {*(f"{name}:{port}" for name in LOCAL), self.place}


class HttpHandler(BaseHTTPRequestHandler):
    """Handles one request: authorization, routing, response."""

    server: Server
    timeout = 30
    server_version, sys_version = "holdfast", ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the text of a request is not trusted."""

    def _elsewhere(self, came: str) -> bool:
        """Whether another site caused this request, by the Sec-Fetch-Site header. came: its path"""
        told = self.headers.get("Sec-Fetch-Site", "none")
        # A link elsewhere may lead to a page for a person to look at, but not make us work.
        leads = self.headers.get("Sec-Fetch-Mode", "navigate") == "navigate" and came != "/zip"
        return told in ("cross-site", "same-site") and not leads

    def _answer(self) -> None:
        try:
            reply = self._reply()
        except HoldfastError as error:
            reply = _problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except OSError as error:
            reply = _problem(HTTPStatus.NOT_FOUND, f"Cannot be read: {error.strerror}.")
        except Exception as error:
            # One bad run must not take a page down without a word.
            sys.excepthook(type(error), error, error.__traceback__)
            name = type(error).__name__
            reply = _problem(HTTPStatus.INTERNAL_SERVER_ERROR, f"Internal error: {name}.")
        self._send(reply)

    def _reply(self) -> HttpReply:
        if not self.server.known_host(self.headers.get("Host", "")):
            return _problem(
                HTTPStatus.MISDIRECTED_REQUEST, "Unknown Host header; use the printed address."
            )
        try:
            url = urlsplit(self.path)
            query = parse_qs(url.query, max_num_fields=MOST_FIELDS)
        except ValueError as error:
            return _problem(HTTPStatus.BAD_REQUEST, f"Invalid address: {error}.")
        if self._elsewhere(url.path):
            return _problem(
                HTTPStatus.FORBIDDEN, "Cross-site request rejected; open this page directly."
            )
        if self.server.token and not self._admitted():
            given = query.pop("token", [""])[0]
            if not _same(given, self.server.token):
                return _problem(
                    HTTPStatus.UNAUTHORIZED,
                    "Missing token: open the printed address with ?token=... once.",
                )
            rest = urlencode(query, doseq=True)
            place = "/" + url.path.lstrip("/\\") + (f"?{rest}" if rest else "")
            flags = "HttpOnly; SameSite=Strict; Path=/"
            headers = {"Location": place, "Set-Cookie": f"{COOKIE}={given}; {flags}"}
            return HttpReply(status=HTTPStatus.SEE_OTHER, headers=headers)
        page = PAGES.get(url.path)
        if page is None:
            return _problem(HTTPStatus.NOT_FOUND, "No such page.")
        return page(self.server.shelf, query)

    def _admitted(self) -> bool:
        scheme, _, bearer = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(bearer, self.server.token):
            return True
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self.server.token)

    def _send(self, reply: HttpReply) -> None:
        body = reply.body
        length = len(body) if isinstance(body, bytes) else body.seek(0, 2)
        self.send_response(reply.status)
        headers = {
            "Content-Type": reply.kind,
            "Content-Length": str(length),
            "Content-Security-Policy": reply.policy,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
            **reply.headers,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if self.command == "HEAD":
                return
            if isinstance(body, bytes):
                self.wfile.write(body)
            else:
                body.seek(0)
                shutil.copyfileobj(body, self.wfile)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        finally:
            if not isinstance(body, bytes):
                body.close()


Query = dict[str, list[str]]


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _problem(status: HTTPStatus, sentence: str) -> HttpReply:
    return HttpReply(status=status, body=browse.problem(sentence).encode("utf-8", "replace"))


def _page(text: str, **headers: str) -> HttpReply:
    return HttpReply(body=text.encode("utf-8", "replace"), headers=headers)


def _list(shelf: RunIndex, query: Query) -> HttpReply:
    fields = (*browse.FILTERS, *browse.SEARCH)
    wanted = {name: query.get(name, [""])[0][:200] for name in fields}
    number = query.get("page", ["1"])[0]
    page = int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 1
    return _page(browse.runs(shelf.entries(), wanted, page, VIRTUAL_TIME))


def _map(shelf: RunIndex, query: Query) -> HttpReply:
    return _page(browse.heat(shelf.entries(), VIRTUAL_TIME))


def _trend(shelf: RunIndex, query: Query) -> HttpReply:
    return _page(browse.trend(shelf.entries()))


def _one(query: Query, shelf: RunIndex, name: str = "id") -> Entry | None:
    return shelf.entry(query.get(name, [""])[0])


def _with_run(
    page: Callable[[RunIndex, Query, Entry], HttpReply],
) -> Callable[[RunIndex, Query], HttpReply]:
    def asked(shelf: RunIndex, query: Query) -> HttpReply:
        entry = _one(query, shelf)
        if entry is None:
            return _problem(HTTPStatus.NOT_FOUND, "No such run.")
        return page(shelf, query, entry)

    return asked


def _run(shelf: RunIndex, query: Query, entry: Entry) -> HttpReply:
    live = shelf.live(entry) if entry.state == "running" else {}
    going = entry.state == "running" or (entry.state == "unjudged" and _fresh(entry))
    again = {"Refresh": "2"} if going and "still" not in query else {}
    return _page(browse.run(entry, live, sorted(_logs(entry))), **again)


def _fresh(entry: Entry) -> bool:
    """Whether a run ended so recently that its verdict may still be computed."""
    try:
        with files.opened(entry.dir.path, entry.dir.times.name) as times:
            return time.time() - os.fstat(times).st_mtime < VERDICT_WITHIN_S
    except OSError:
        return False


def _compare(shelf: RunIndex, query: Query) -> HttpReply:
    chosen = [shelf.entry(ident) for ident in query.get("run", [])[:2]]
    judged = [entry for entry in chosen if entry is not None and entry.result is not None]
    if len(judged) < 2:
        return _problem(HTTPStatus.BAD_REQUEST, "Select two judged runs to compare.")
    return _page(browse.compare(judged[0], judged[1]))


def _report(shelf: RunIndex, query: Query, entry: Entry) -> HttpReply:
    if not files.is_file(entry.dir.path, browse.REPORT):
        return _problem(HTTPStatus.NOT_FOUND, "This run has no report yet: holdfast report RUN.")
    with files.opened(entry.dir.path, browse.REPORT) as file:
        return HttpReply(body=os.fdopen(os.dup(file), "rb"), policy=REPORT_POLICY)


def _log(shelf: RunIndex, query: Query, entry: Entry) -> HttpReply:
    name = query.get("name", [""])[0]
    if name not in _logs(entry):
        return _problem(HTTPStatus.NOT_FOUND, "No such log.")
    with files.opened(entry.dir.path, f"logs/{name}") as log:
        start = max(os.fstat(log).st_size - LOG_TAIL, 0)
        return HttpReply(kind="text/plain; charset=utf-8", body=os.pread(log, LOG_TAIL, start))


def _zip(shelf: RunIndex, query: Query, entry: Entry) -> HttpReply:
    names = list(files.walked(entry.dir.path))
    total = sum(max(files.size(entry.dir.path, name), 0) for name in names)
    if total > ZIP_BYTES or len(names) > files.MOST_FILES:
        return _problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"This run has {total >> 20} MiB in {len(names)} files, too large for a zip:"
            f" copy the folder {entry.dir.path.name}.",
        )
    if not shelf.zipping.acquire(blocking=False):
        return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "Another zip is being created; try again.")
    with contextlib.ExitStack() as stack:
        stack.callback(shelf.zipping.release)
        with contextlib.ExitStack() as failing:
            whole = failing.enter_context(tempfile.TemporaryFile())
            with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in names:
                    _add(archive, entry, name)
            failing.pop_all()
    name = re.sub(r"[^\w.-]", "_", entry.dir.path.name, flags=re.ASCII)
    said = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
    return HttpReply(kind="application/zip", body=whole, headers=said)


def _add(archive: zipfile.ZipFile, entry: Entry, name: str) -> None:
    """A file of the run, up to its size when it is opened."""
    with contextlib.suppress(OSError), files.opened(entry.dir.path, name) as file:
        left = min(os.fstat(file).st_size, ZIP_BYTES)
        with archive.open(f"{entry.dir.path.name}/{name}", "w", force_zip64=True) as member:
            while left and (piece := os.read(file, min(left, 1 << 20))):
                member.write(piece)
                left -= len(piece)


def _logs(entry: Entry) -> list[str]:
    """Names of the logs of a run, in its folder of logs; without links."""
    return [name.removeprefix("logs/") for name in files.walked(entry.dir.path, "logs")]


def _style(shelf: RunIndex, query: Query) -> HttpReply:
    parts = [(TEMPLATES / name).read_bytes() for name in ("style.css", "many.css", "browse.css")]
    # No page has rules of its own: its policy allows those of this server only.
    parts.append(browse.one_map_at_a_time().encode())
    return HttpReply(kind="text/css; charset=utf-8", body=b"\n".join(parts))


PAGES: dict[str, Callable[[RunIndex, Query], HttpReply]] = {
    "/": _list,
    "/trend": _trend,
    "/map": _map,
    "/run": _with_run(_run),
    "/report": _with_run(_report),
    "/log": _with_run(_log),
    "/zip": _with_run(_zip),
    "/compare": _compare,
    "/style.css": _style,
}
