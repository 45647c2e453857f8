"""Connections to hosts over ssh: verified host keys, errors as EnvironmentFailed.

The only file that imports paramiko, and the only place where words become a command line: sshd
passes a string to the login shell, so every word is quoted.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote

from holdfast.clusters.backends.ssh.hosts_file import Host, Jump
from holdfast.harness.core import extras
from holdfast.harness.core.errors import EnvironmentFailed

if TYPE_CHECKING:
    import paramiko

T = TypeVar("T")

CONNECT_S = 10.0
MARK = "host-"
MARKED_S = 2.0
KEEPALIVE_S = 2
NOTHING_TO_SHOW = "No authentication methods available"
"""Error text of paramiko without a key file and without an agent."""


class Unknown(Exception):
    """An unknown host key."""


class _Strict:
    """Rejects every unknown host key. paramiko calls only this method."""

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        raise Unknown(f"{key.get_name()} {key.fingerprint}")


class Connection:
    """One host over ssh: commands and files. For one thread at a time."""

    def __init__(self, host: Host, known_hosts: str) -> None:
        """Connects. EnvironmentFailed says why it failed, and what to do."""
        self._paramiko = extras.load("paramiko", "ssh")
        self.host = host
        self._clients: list[paramiko.SSHClient] = []
        known = os.path.expanduser(known_hosts)
        try:
            through = None
            if host.jump is not None:
                jump = self._connect(host.jump, known, None)
                try:
                    transport = jump.get_transport()
                    there = (host.address, host.port)
                    through = transport.open_channel("direct-tcpip", there, ("", 0), CONNECT_S)
                except self._paramiko.SSHException as error:
                    raise self._failed(
                        host.jump, f"does not lead to {host.address}: {error}"
                    ) from (error)
            self._client = self._connect(host, known, through)
        except BaseException:
            self.close()
            raise

    def run(self, argv: Sequence[str]) -> paramiko.Channel:
        """Starts a command; its channel. Quotes the words into a line for a shell."""
        try:
            channel = self._client.get_transport().open_session(timeout=CONNECT_S)
            channel.exec_command(shlex.join(argv))
        except (self._paramiko.SSHException, OSError, EOFError, AttributeError) as error:
            raise EnvironmentFailed(f"ssh: {self.host.name}: connection lost") from error
        return channel

    def make_folder(self, path: str) -> None:
        """Creates the folder of a run, which only the login user may enter, with this host's mark.

        EnvironmentFailed where another host of the run has made it: the two share a disk.
        """
        mark = f"{path}/{MARK}{quote(self.host.name, safe='')}"
        try:
            self._files(lambda sftp: sftp.mkdir(path, 0o700), path)
        except EnvironmentFailed:
            if not self.exists(path):
                raise
            other = self._mark_in(path)
            raise EnvironmentFailed(
                f"ssh: {self.host.name}: host {other} has the same disk: its folder of the run,"
                f" {path}, is here too; set another `folder` for one of them (one machine under two"
                " names is one host)"
            ) from None
        try:
            self._files(lambda sftp: sftp.mkdir(mark, 0o700), mark)
        except EnvironmentFailed:
            self._files(lambda sftp: sftp.rmdir(path), path)
            raise

    def _mark_in(self, folder: str) -> str:
        """The name of the host that made the folder, which marks it just after."""
        deadline = time.monotonic() + MARKED_S
        while True:
            names = self._files(lambda sftp: sftp.listdir(folder), folder)
            marks = [unquote(name.removeprefix(MARK)) for name in names if name.startswith(MARK)]
            if marks or time.monotonic() > deadline:
                return marks[0] if marks else "(another one of this run)"
            time.sleep(MARKED_S / 40)

    def upload(self, source: Path, target: str) -> None:
        """Copies a file to the host."""
        self._files(lambda sftp: sftp.put(str(source), target), target)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder on the host."""

        def look(sftp: paramiko.SFTPClient) -> bool:
            try:
                sftp.stat(path)
            except FileNotFoundError:
                return False
            return True

        return bool(self._files(look, path))

    def close(self) -> None:
        """Closes the connection; the host notices."""
        for client in reversed(self._clients):
            with suppress(Exception):
                client.close()

    def _files(self, act: Callable[[paramiko.SFTPClient], T], path: str) -> T:
        try:
            with self._client.open_sftp() as sftp:
                return act(sftp)
        except (self._paramiko.SSHException, OSError, EOFError) as error:
            # For a full disk sftp reports only "Failure".
            reason = str(error) or type(error).__name__
            hint = "; is the disk full, or the folder not writable?" if reason == "Failure" else ""
            raise EnvironmentFailed(
                f"ssh: {self.host.name}: {path} cannot be written: {reason}{hint}"
            ) from error

    def _connect(
        self, to: Host | Jump, known: str, through: paramiko.Channel | None
    ) -> paramiko.SSHClient:
        client = self._paramiko.SSHClient()
        self._clients.append(client)
        client.set_missing_host_key_policy(_Strict())
        with suppress(FileNotFoundError):
            client.load_system_host_keys(known)
        key = os.path.expanduser(to.key)
        try:
            client.connect(
                to.address,
                port=to.port,
                username=to.user or None,
                key_filename=key or None,
                allow_agent=not key,
                look_for_keys=False,
                sock=through,
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
            )
        except Unknown as error:
            scan = shlex.join(["ssh-keyscan", "-p", str(to.port), to.address])
            raise self._failed(
                to,
                f"unknown host key {error} (not in {known}); compare its fingerprint with the"
                f" owner's, then add it: {scan} >> {shlex.quote(known)}",
            ) from error
        except self._paramiko.BadHostKeyException as error:
            name = to.address if to.port == 22 else f"[{to.address}]:{to.port}"
            forget = shlex.join(["ssh-keygen", "-f", known, "-R", name])
            raise self._failed(
                to,
                f"its host key has CHANGED and is {error.key.get_name()} {error.key.fingerprint}"
                f" now; this may be another machine. Find out why, then remove the old: {forget}",
            ) from error
        except self._paramiko.AuthenticationException as error:
            what = f"the key {key}" if key else "every key of your agent"
            if isinstance(error, self._paramiko.PasswordRequiredException):
                raise self._failed(to, f"{what} has a passphrase; load it into an agent") from error
            raise self._failed(
                to,
                f"{what} was refused for {to.user or 'your name'}; give another `key` or `user`, or"
                " add the public key to its authorized_keys",
            ) from error
        except FileNotFoundError as error:
            raise self._failed(to, f"missing key file {key}") from error
        except (self._paramiko.SSHException, OSError, EOFError) as error:
            if str(error) == NOTHING_TO_SHOW:
                raise self._failed(
                    to, "no key: set `key`, or load one into an agent (ssh-add)"
                ) from error
            raise self._failed(
                to,
                f"cannot be reached: {_reason(error)}; is it up, and do `address` and `port` lead"
                " to its sshd?",
            ) from error
        client.get_transport().set_keepalive(KEEPALIVE_S)
        return client

    def _failed(self, to: Host | Jump, why: str) -> EnvironmentFailed:
        way = "jump host " if isinstance(to, Jump) else ""
        return EnvironmentFailed(f"ssh: {self.host.name}: {way}{to.address}:{to.port} {why}")


def _reason(error: Exception) -> str:
    """The operating system's error, where paramiko only lists its attempts."""
    tried: dict[object, OSError] = getattr(error, "errors", {})
    if tried:
        return ", ".join(sorted({one.strerror or str(one) for one in tried.values()}))
    return str(error) or type(error).__name__
