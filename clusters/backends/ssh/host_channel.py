"""JSON lines to a program on a host, as root through sudo; one response to each request."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.clusters.backends.ssh.connect import Connection
from holdfast.clusters.backends.ssh.hosts_file import Host
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json

PROMPT = "holdfast-asks-sudo:"
WRONG_PASSWORD = "the password is wrong"
BEGIN_S = 20.0
ANSWER_S = 25.0
GONE_S = 6.0
"""A host without a response to a simple request for this time counts as lost."""
POLL_S = 0.005


class HostGone(Exception):
    """The program no longer responds; the reason."""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """A response, and the driver's clock before the request and after the response."""

    answer: dict[str, Any]
    sent_ns: int
    received_ns: int


def as_root(host: Host) -> list[str]:
    """Words to put before a command of a host so that it runs as root."""
    if not host.sudo:
        return []
    if host.sudo_password_env:
        return ["sudo", "-k", "-S", "-p", PROMPT, "--"]
    return ["sudo", "-n", "--"]


class Line:
    """A running program with a JSON lines protocol. For one thread at a time."""

    def __init__(self, connection: Connection, argv: Sequence[str]) -> None:
        """Starts it and waits for its first line. EnvironmentFailed says why it did not arrive."""
        self._host = connection.host
        self._rest = b""
        self._errors = b""
        self._sent = 0
        self._channel = connection.run([*as_root(self._host), *argv])
        if self._host.sudo and self._host.sudo_password_env:
            self._send(self._password().encode() + b"\n", BEGIN_S)
        self.first = self._begun()

    def ask(self, request: Mapping[str, Json], within_s: float = ANSWER_S) -> HostAnswer:
        """One request and its response. Gone if there is none within the timeout.

        Both have a number: a late response to a request that timed out is not that to a later one.
        """
        self._sent += 1
        line = json.dumps({**request, "number": self._sent}).encode() + b"\n"
        sent_ns = now_ns()
        self._send(line, within_s)
        while True:
            answer = json.loads(self._receive(within_s))
            if answer.pop("number", None) == self._sent:
                return HostAnswer(answer, sent_ns, now_ns())

    def close(self) -> None:
        """Closes its input."""
        self._channel.close()

    def _password(self) -> str:
        name = self._host.sudo_password_env
        if name not in os.environ:
            raise EnvironmentFailed(
                f"ssh: {self._host.name}: missing sudo password: the environment variable"
                f" {name} is not set; export it before the run"
            )
        return os.environ[name]

    def _send(self, data: bytes, within_s: float) -> None:
        try:
            self._channel.settimeout(within_s)
            self._channel.sendall(data)
        except OSError as error:
            raise HostGone(str(error) or "connection lost") from error

    def _receive(self, within_s: float) -> bytes:
        parts = [self._rest]
        self._channel.settimeout(within_s)
        while b"\n" not in parts[-1]:
            try:
                data = self._channel.recv(1 << 18)
            except TimeoutError as error:
                raise HostGone(f"no response within {within_s:g} s") from error
            except OSError as error:
                raise HostGone(str(error) or "connection lost") from error
            if not data:
                raise HostGone(f"it exited{self._last_output()}")
            parts.append(data)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _begun(self) -> dict[str, Json]:
        """The first line, which reports that it runs; or why it does not."""
        deadline = time.monotonic() + BEGIN_S
        channel = self._channel
        while not channel.recv_ready():
            while channel.recv_stderr_ready():
                self._errors += channel.recv_stderr(1 << 16)
            if self._errors.count(PROMPT.encode()) > 1:
                channel.close()
                raise self._refused(WRONG_PASSWORD)
            if channel.exit_status_ready() and not channel.recv_ready():
                raise self._refused(self._last_output().lstrip(": ") or "no output")
            if time.monotonic() > deadline:
                channel.close()
                raise self._refused(f"no response within {BEGIN_S:g} s")
            time.sleep(POLL_S)
        try:
            return dict(json.loads(self._receive(BEGIN_S)))
        except (HostGone, ValueError) as error:
            raise self._refused(str(error)) from error

    def _refused(self, why: str) -> EnvironmentFailed:
        host = self._host
        user = host.user or "the login user"
        if why == WRONG_PASSWORD:
            return EnvironmentFailed(
                f"ssh: {host.name}: sudo refused {user}: {why}; correct the environment variable"
                f" {host.sudo_password_env}"
            )
        if why.startswith("sudo:"):
            return EnvironmentFailed(
                f"ssh: {host.name}: sudo refused {user}: {why.removeprefix('sudo: ')}; allow"
                " it in the host's sudoers, name a sudo_password_env, or log in as root with"
                " sudo = false"
            )
        return EnvironmentFailed(
            f"ssh: {host.name}: {host.python} did not start there: {why}"
            " (it needs Python 3.11 or newer)"
        )

    def _last_output(self) -> str:
        """The last line of its standard error, after a colon."""
        while self._channel.recv_stderr_ready():
            self._errors += self._channel.recv_stderr(1 << 16)
        said = self._errors.decode(errors="replace").replace(PROMPT, "").strip().splitlines()
        return f": {said[-1][:300]}" if said else ""
