"""The network of a run's nodes on one host: a namespace with a bridge, joined to other hosts'.

The host's own network does not change. A tunnel (VXLAN over UDP) is created on the host's address
and moved into the namespace, where it is attached to the bridge; each node is its own namespace on
that bridge. Namespaces live as long as the processes that hold them, and those die with this
process, so there is nothing to undo. Standard library only; needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.clusters.backends import processes

PREFIX_LENGTH = 16
MTU = 1400
WITHIN_S = 10.0
TOOLS = {"ip": "iproute2", "bridge": "iproute2"} | dict.fromkeys(
    ("unshare", "nsenter", "setpriv"), "util-linux"
)


class Impossible(Exception):
    """This host lacks something: where, what, and what to do about it."""


def missing_tools() -> list[str]:
    """What has to be installed before this host can run nodes, one line each."""
    return [
        f"missing command {tool}; install {package}"
        for tool, package in TOOLS.items()
        if shutil.which(tool, path=search_path()) is None
    ]


def search_path() -> str:
    """Search path for commands: what sudo left of PATH, and the folders of root."""
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


@dataclass(slots=True)
class HostNetwork:
    """One host's part of the network of a run.

    own      address by which the other hosts reach this one
    peers    addresses of the others
    inside   address of this host inside the network, for readiness queries of servers
    number   identifies the network of a run, 24 bits
    port     UDP port of the tunnel
    """

    own: str
    peers: Sequence[str]
    inside: str
    number: int
    port: int
    holder: int = -1
    holders: dict[str, int] = field(default_factory=dict)
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def open(self, nodes: Mapping[str, str]) -> dict[str, int]:
        """Create the network and the nodes in it (name -> address); pid of each node's holder."""
        self.holder = self._hold()
        tunnel = f"hf{os.getpid()}"
        _ip(
            f"link add name {tunnel} mtu {MTU} type vxlan id {self.number} dstport {self.port}"
            f" local {self.own}",
            f"link set {tunnel} netns {self.holder} name tunnel",
        )
        inside = self.enter(self.holder)
        _ip(
            "link set lo up",
            "link add name fabric type bridge",
            f"addr add {self.inside}/{PREFIX_LENGTH} dev fabric",
            "link set tunnel master fabric up",
            "link set fabric up",
            enter=inside,
        )
        for peer in self.peers:
            everyone = "00:00:00:00:00:00"
            _run(*inside, "bridge", "fdb", "append", everyone, "dev", "tunnel", "dst", peer)
        for n, (name, address) in enumerate(nodes.items()):
            self.holders[name] = self._node(n, address, inside)
        return dict(self.holders)

    def enter(self, holder: int) -> list[str]:
        """Words to put before a command, so that it runs in the network of a holder."""
        return ["nsenter", f"--net=/proc/{holder}/ns/net", "--"]

    def networks(self) -> set[str]:
        """The namespaces of the run, as /proc names them."""
        return {network(pid) for pid in [self.holder, *self.holders.values()]} - {""}

    def close(self) -> None:
        """Kills the holders; the namespaces and all processes in them end with them."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait()
        self._children.clear()

    def _node(self, n: int, address: str, inside: Sequence[str]) -> int:
        holder = self._hold()
        _ip(
            f"link add name h{n} mtu {MTU} type veth peer name eth0 mtu {MTU} netns {holder}",
            f"link set h{n} master fabric up",
            enter=inside,
        )
        _ip(
            "link set lo up",
            f"addr add {address}/{PREFIX_LENGTH} dev eth0",
            "link set eth0 up",
            enter=self.enter(holder),
        )
        return holder

    def _hold(self) -> int:
        """Starts a process that holds its own namespace; its pid, once it does."""
        words = [*processes.dies_with_us(), "unshare", "--net", "--", "sleep", "infinity"]
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": search_path()},
            start_new_session=True,
        )
        self._children.append(child)
        deadline = time.monotonic() + WITHIN_S
        while network(child.pid) in ("", network("self")):
            if child.poll() is not None:
                raise Impossible("the kernel refuses network namespaces, even to root")
            if time.monotonic() > deadline:
                raise Impossible(f"no network namespace within {WITHIN_S:g} s")
            time.sleep(0.001)
        return child.pid


def network(pid: int | str) -> str:
    """The network namespace of a process, as /proc names it; empty if there is none."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _ip(*lines: str, enter: Sequence[str] = ()) -> None:
    _run(*enter, "ip", "-batch", "-", said="\n".join(lines))


def _run(*words: str, said: str = "") -> None:
    done = subprocess.run(
        words, input=said, capture_output=True, text=True, env={"PATH": search_path()}
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise Impossible(f"{words[-3] if not said else 'ip'}: {reason}")
