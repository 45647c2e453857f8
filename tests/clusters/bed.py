"""Five hosts to test the ssh backend on: containers of the node image, each with its own sshd.

Host keys, the login's key and known_hosts are made anew for every bed, in its folder.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.clusters.backends.docker import engine
from holdfast.clusters.backends.docker.image import build

FREEZE_WITHIN_S = 30
CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE", "KILL")
LABEL = "holdfast.test-bed"
USER = "tester"
UP_S = 120.0
BEGIN = """
set -eu
useradd --create-home --shell /bin/bash tester
install -d -m 700 -o tester -g tester /home/tester/.ssh
cp /bed/login.pub /home/tester/.ssh/authorized_keys
chown tester:tester /home/tester/.ssh/authorized_keys
echo "$SUDO" > /etc/sudoers.d/tester
echo "tester:$PASSWORD" | chpasswd
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -h /bed/$NAME -o PasswordAuthentication=no -o MaxSessions=64
"""
FREE = "tester ALL=(ALL) NOPASSWD: ALL"


def run(*words: str, check: bool = True) -> str:
    """What a command printed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or not check, f"{words}: {done.stderr}"
    return done.stdout.strip()


SKEWED = """#!/usr/bin/python3 -S
import runpy, sys, time
true = time.clock_gettime_ns
def skewed(clock):
    now = true(clock)
    if clock != time.CLOCK_BOOTTIME:
        return now
    return now + OFFSET + (now - SINCE) * PPM // 1_000_000
time.clock_gettime_ns = skewed
sys.argv[:] = sys.argv[sys.argv.index("-m") + 1 :]
module = sys.argv[0]
del sys.path[0]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""A Python whose processes all share a clock that is off and drifts."""


@dataclass(slots=True)
class Bed:
    """Hosts h1, h2 ... in containers on a network of their own. Use it as a context.

    sudo      line of the sudoers file, per host where it is not FREE
    tmpfs     size of /var/tmp, per host where it is not the container's own disk
    shared    hosts that have /bed-disk, the same disk
    """

    folder: Path
    count: int = 5
    sudo: dict[str, str] = field(default_factory=dict)
    tmpfs: dict[str, str] = field(default_factory=dict)
    shared: Sequence[str] = ()
    password: str = "not a secret"
    addresses: dict[str, str] = field(default_factory=dict)
    _network: str = ""

    def __enter__(self) -> Bed:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._network = f"holdfast-bed-{os.getpid()}-{time.monotonic_ns()}"
        run(
            *("docker", "network", "create", "--internal", "--label", LABEL),
            *("--subnet", _free_subnet(), self._network),
        )
        try:
            self._key(self.folder / "login")
            os.chmod(self.folder, 0o755)
            for n in range(1, self.count + 1):
                self._begin(f"h{n}")
            self._until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        names = [self.container(f"h{n}") for n in range(1, self.count + 1)]
        run("docker", "rm", "--force", "--volumes", *names, check=False)
        run("docker", "network", "rm", self._network, check=False)

    def container(self, host: str) -> str:
        """Name of the container that is this host."""
        return f"{self._network}-{host}"

    def on(self, host: str, *words: str, check: bool = True) -> str:
        """What a command printed that root ran on a host."""
        return run("docker", "exec", "--user=0", self.container(host), *words, check=check)

    def freeze(self, host: str) -> None:
        """Stops everything on a host, so that what is sent to it waits. The engine gives up where
        the kernel is slow to freeze a busy container, and has then to be asked again."""
        words = ("docker", "pause", self.container(host))
        deadline = time.monotonic() + FREEZE_WITHIN_S
        while subprocess.run(words, capture_output=True, timeout=60).returncode:
            assert time.monotonic() < deadline, f"{host} did not freeze"

    def thaw(self, host: str) -> None:
        run("docker", "unpause", self.container(host))

    @property
    def known_hosts(self) -> Path:
        """The file in which this bed's host keys are vouched for."""
        return self.folder / "known_hosts"

    def hosts_file(self, *, names: Sequence[str] = (), top: str = "", **given: str) -> Path:
        """A hosts file for these hosts (all). `given` are TOML values of each, as text."""
        path = self.folder / f"hosts-{time.monotonic_ns()}.toml"
        key = given.pop("key", f'"{self.folder / "login"}"')
        lines = [f'known_hosts = "{self.known_hosts}"', top]
        for name in names or self.addresses:
            lines += ["[[host]]", f'name = "{name}"', f'address = "{self.addresses[name]}"']
            lines += [f'user = "{USER}"', f"key = {key}"]
            lines += [f"{option} = {value.format(name=name)}" for option, value in given.items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def skew(self, host: str, offset_ns: int, ppm: int) -> None:
        """Gives a host the Python /bed/skewed-NAME, for the boot clock of what runs by it."""
        path = self.folder / f"skewed-{host}"
        known = {
            "OFFSET": offset_ns,
            "PPM": ppm,
            "SINCE": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        }
        text = SKEWED
        for name, value in known.items():
            text = text.replace(name, str(value))
        path.write_text(text)
        path.chmod(0o755)

    def folders_left(self) -> list[str]:
        """Run folders on any host that still answers, as host:path."""
        found = []
        for name in self.addresses:
            listed = self.on(name, "find", "/var/tmp", "-maxdepth", "1", "-name", "holdfast-*")
            found += [f"{name}:{line}" for line in listed.splitlines()]
        return found

    def processes_left(self) -> list[str]:
        """Command lines with this harness's name, and stopped processes, on any host."""
        found = []
        for name in self.addresses:
            table = self.on(name, "ps", "-eo", "stat=,args=")
            lines = [line for line in table.splitlines() if "ps -eo" not in line]
            found += [f"{name}: {s}" for s in lines if "holdfast" in s or s.startswith("T")]
        return found

    def vouch(self, host: str, key: Path) -> None:
        """Writes a host key into known_hosts."""
        kind, blob = key.with_suffix(".pub").read_text().split()[:2]
        with self.known_hosts.open("a") as file:
            file.write(f"{self.addresses[host]} {kind} {blob}\n")

    def _begin(self, name: str) -> None:
        key = self.folder / name
        self._key(key)
        disk = [f"--tmpfs=/var/tmp:size={self.tmpfs[name]}"] if name in self.tmpfs else []
        if name in self.shared:
            there = self.folder.parent / "bed-disk"
            there.mkdir(exist_ok=True)
            there.chmod(0o1777)
            disk.append(f"--volume={there}:/bed-disk")
        run(
            *("docker", "run", "--detach", "--user=0", f"--hostname={name}", f"--label={LABEL}"),
            *(f"--name={self.container(name)}", f"--network={self._network}"),
            *(f"--cap-add={capability}" for capability in CAPABILITIES),
            *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
            *(f"--volume={self.folder}:/bed:ro", f"--env=NAME={name}"),
            *(f"--env=SUDO={self.sudo.get(name, FREE)}", f"--env=PASSWORD={self.password}"),
            *disk,
            *(build.tag(), "bash", "-c", BEGIN),
        )
        self.addresses[name] = run(
            *("docker", "inspect", self.container(name), "--format"),
            "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
        )
        self.vouch(name, key)

    def _key(self, path: Path) -> None:
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))

    def _until_up(self) -> None:
        deadline = time.monotonic() + UP_S
        for name, address in self.addresses.items():
            while not run("ssh-keyscan", "-T", "15", address, check=False):
                assert time.monotonic() < deadline, run(
                    "docker", "logs", self.container(name), check=False
                )
                time.sleep(0.05)


def _free_subnet() -> str:
    """A subnet that no route of this machine and no other bed covers."""
    taken = engine.routes()
    first = os.getpid() * 31 + time.monotonic_ns() // 1000
    for n in range(64):
        subnet = ipaddress.IPv4Network(f"10.{200 + (first + n) % 50}.{(first + 7 * n) % 250}.0/24")
        if not any(subnet.overlaps(route) for route in taken):
            return str(subnet)
    raise AssertionError("no free subnet for a test bed")
