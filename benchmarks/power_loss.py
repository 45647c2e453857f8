"""Cost of a power loss and of a hung disk: `python -m benchmarks.power_loss` as root.

Times are the fault agent's own, from reading a request to knowing that the fault is in place, on a
process with 4 MiB of unsynced data. Needs loop devices and mkfs.ext4.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast import catalogue
from holdfast.clusters.backends.local.backend import MOUNTS_VARIABLE, diskless, launch_prefix
from holdfast.harness.core.loading import load
from holdfast.interpreter import build
from holdfast.nemesis.agent.requests import FaultAgent

ROUNDS, DISK_BYTES = 50, 512 << 20
WRITER = """
import os, sys, time
file = os.open(sys.argv[1] + "/data", os.O_CREAT | os.O_WRONLY)
os.write(file, bytes(4 << 20))
print("ready", flush=True)
time.sleep(600)
"""


def main() -> int:
    """Prints the table; starts itself again in a mount namespace first."""
    reason = diskless()
    if reason is not None:
        raise SystemExit(reason)
    if MOUNTS_VARIABLE not in os.environ:
        words = [*launch_prefix(disks=True), sys.executable, "-m", "benchmarks.power_loss"]
        os.execvp(words[0], words)
    agent = FaultAgent()
    kinds = (catalogue.NEMESES[name].entry for name in ("power", "disk-hang"))
    ask(agent, "load", halves=[half for entry in kinds for half in load(entry).agent])
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "n1"
        ask(agent, "disk", node="n1", path=str(at), bytes=DISK_BYTES)
        power = [fault(agent, at, "power", n) for n in range(ROUNDS)]
        hang = [fault(agent, at, "disk-hang", ROUNDS + n) for n in range(ROUNDS)]
        subprocess.run(["umount", str(at)], check=True)
    for name, times in (("power loss", power), ("disk hang", hang)):
        tail = sorted(times)[len(times) * 95 // 100]
        sys.stdout.write(f"{name:<12} median {statistics.median(times):6.1f} ms, p95 {tail:6.1f}\n")
    sys.stdout.write(f"{build()}\n")
    return 0


def fault(agent: FaultAgent, at: Path, do: str, number: int) -> float:
    """Milliseconds of one injection on a new process."""
    words = [sys.executable, "-S", "-P", "-c", WRITER, str(at)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline()
        pids = [process.pid]
        ask(agent, "adopt", node="n1", pid=os.getpid(), address="127.0.0.1", processes=pids)
        took = ask(agent, do, fault=f"f{number}", nodes=["n1"])
        ask(agent, "heal", fault=f"f{number}")
        process.kill()
    return took


def ask(agent: FaultAgent, do: str, **args: object) -> float:
    """Milliseconds that the agent took."""
    reply = agent.serve({"id": 1, "do": do, **args})
    if not reply["ok"]:
        raise SystemExit(str(reply["error"]))
    took = reply["took_ns"]
    assert isinstance(took, int)
    return took / 1e6


if __name__ == "__main__":
    sys.exit(main())
