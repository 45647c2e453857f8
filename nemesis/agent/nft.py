"""Packets dropped by source address inside one network namespace, with a counter per source.

Our own table has one set; an input hook drops packets from its elements. libnftables is
called in this process (0.1 ms per change); if it is missing, the `nft` program is used.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from holdfast.nemesis.agent.request_errors import Refused

TABLE = "holdfast_cut"
LINK_TABLE = "holdfast_links"
"""The table of other faults of links (`nemesis/agent/links`), empty at first."""
CLEAR = "\n".join(f"add table ip {name}\ndelete table ip {name}" for name in (TABLE, LINK_TABLE))
SETUP = f"""
{CLEAR}
add table ip {LINK_TABLE}
table ip {TABLE} {{
  set drop_in {{ type ipv4_addr; counter; }}
  chain input {{ type filter hook input priority -300; policy accept; ip saddr @drop_in drop; }}
}}
"""
ELEMENT = re.compile(r"([0-9.]+) counter packets ([0-9]+)")
SBIN = "/usr/sbin:/sbin"
"""Folder of nft and ip, which is not in the PATH of an ordinary user."""
BOUND_S = 5.0
CLONE_NEWNET = 0x4000_0000


class NetworkFailed(Refused):
    """nftables or the kernel refused; the message is theirs."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _move(call: str, *args: int) -> None:
    """setns or unshare of the calling thread, which CPython 3.11 does not offer."""
    if getattr(_libc(), call)(*args) != 0:
        error = ctypes.get_errno()
        raise NetworkFailed(f"{call}: {os.strerror(error)}")


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnftables.so.1")
    except OSError:
        return None
    library.nft_ctx_new.restype = ctypes.c_void_p
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).restype = ctypes.c_char_p
        getattr(library, name).argtypes = [ctypes.c_void_p]
    for name in ("nft_ctx_free", "nft_ctx_buffer_output", "nft_ctx_buffer_error"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return library


class Namespace:
    """The network namespace of one process, kept by a file descriptor, and its dropped sources."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._context: int | None = None
        self.dropping: set[str] = set()

    @property
    def inode(self) -> int:
        """Equal for two processes if and only if they share a network namespace."""
        return os.fstat(self._fd).st_ino

    @property
    def is_ours(self) -> bool:
        """Whether this process is in it too."""
        return self.inode == os.fstat(self._home).st_ino

    def open(self) -> None:
        """Creates our empty tables there. Errors: NetworkFailed."""
        self.run(SETUP)
        self.dropping = set()

    def close(self) -> None:
        """Removes our tables and closes the namespace."""
        try:
            self.run(CLEAR)
        finally:
            self.forget()

    def forget(self) -> None:
        """Closes the namespace, and leaves what is in it."""
        if self._context:
            library = _library()
            assert library is not None
            library.nft_ctx_free(self._context)
        os.close(self._fd)
        os.close(self._home)

    def enter(self) -> None:
        """Moves the calling thread into this network namespace. Errors: NetworkFailed."""
        _move("setns", self._fd, CLONE_NEWNET)

    def drop(self, sources: Iterable[str]) -> None:
        """Packets from these addresses are dropped from now on; counters begin at 0."""
        fresh = [source for source in dict.fromkeys(sources) if source not in self.dropping]
        if fresh:
            self.run(f"add element ip {TABLE} drop_in {{ {', '.join(fresh)} }}")
            self.dropping.update(fresh)

    def admit(self, sources: Iterable[str]) -> None:
        """Packets from these addresses pass again."""
        gone = [source for source in dict.fromkeys(sources) if source in self.dropping]
        if gone:
            self.run(f"delete element ip {TABLE} drop_in {{ {', '.join(gone)} }}")
            self.dropping.difference_update(gone)

    def counts(self) -> dict[str, int]:
        """Source address -> packets dropped since it was added, as the kernel counts them."""
        if not self.dropping:
            return {}
        text = self.run(f"list set ip {TABLE} drop_in")
        return {source: int(packets) for source, packets in ELEMENT.findall(text)}

    def run(self, commands: str) -> str:
        """The output of nft commands. Errors: NetworkFailed."""
        with self.inside():
            library = _library()
            if library is None:
                return output_of(["nft", "-f", "-"], commands, of="nftables")
            if self._context is None:
                self._context = library.nft_ctx_new(0)
                library.nft_ctx_buffer_output(self._context)
                library.nft_ctx_buffer_error(self._context)
            failed = library.nft_run_cmd_from_buffer(self._context, commands.encode())
            output: bytes = library.nft_ctx_get_output_buffer(self._context)
            errors: bytes = library.nft_ctx_get_error_buffer(self._context)
        if failed:
            raise NetworkFailed(f"nftables: {errors.decode().strip().splitlines()[0]}")
        return output.decode()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Moves the calling thread here temporarily; sockets that it opens stay here."""
        _move("setns", self._fd, CLONE_NEWNET)
        try:
            yield
        finally:
            _move("setns", self._home, CLONE_NEWNET)


def output_of(command: Sequence[str], commands: str = "", *, of: str) -> str:
    """What a program of the network prints, in the namespace of this thread. Errors: NetworkFailed.

    of: the package that has the program.
    """
    program = command[0]
    try:
        done = subprocess.run(
            command,
            input=commands,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            env={**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{SBIN}"},
        )
    except FileNotFoundError as error:
        raise NetworkFailed(f"missing command {program}; install {of}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkFailed(f"{program}: {error}") from error
    if done.returncode:
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NetworkFailed(f"{program}: {reason[0]}")
    return done.stdout


def probe() -> str | None:
    """Why packets cannot be dropped on this host, or None. Tested in a temporary namespace."""

    def attempt(namespace: Namespace) -> None:
        namespace.drop(["192.0.2.1"])
        if namespace.counts() != {"192.0.2.1": 0}:
            raise NetworkFailed("nftables has no counter per element; 0.9.5 and Linux 5.7 have it")

    return in_new_network(attempt)


def in_new_network(attempt: Callable[[Namespace], None]) -> str | None:
    """Why something cannot be done in a network namespace of this host, or None."""
    problems: list[str] = []

    def run() -> None:
        try:
            _move("unshare", CLONE_NEWNET)
            namespace = Namespace(threading.get_native_id())
            namespace.open()
            attempt(namespace)
            namespace.close()
        except (NetworkFailed, OSError) as error:
            problems.append(str(error))

    # The thread takes its namespace with it when it ends.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return problems[0] if problems else None
