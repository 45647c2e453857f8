"""Faults of links and limits in whole runs: what is effective, what is refused, what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.clusters.backends import memory_groups
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare
from tests import needs
from tests.front import aborted
from tests.front.faulted import in_empty_folder
from tests.front.test_teardown import agent_of, all_gone

pytestmark = pytest.mark.slow

FROM_ONE = "target=n1,every=3s,for=2700ms"
KINDS = (
    f"half-open:{FROM_ONE}",
    f"packet-loss:share=10%,{FROM_ONE}",
    f"packet-duplicate:{FROM_ONE}",
    f"packet-reorder:{FROM_ONE}",
    f"packet-corrupt:share=1%,{FROM_ONE}",
    f"bandwidth:rate=1mbit,{FROM_ONE}",
    f"mtu-black-hole:{FROM_ONE}",
    f"zero-window:{FROM_ONE}",
    f"refuse-connections:{FROM_ONE}",
    f"neighbour-lost:{FROM_ONE}",
    f"slow-links:by=10ms,jitter=10ms,{FROM_ONE}",
    f"cpu-quota:share=50%,{FROM_ONE}",
    f"open-files:{FROM_ONE}",
    f"memory-limit:spare=64MiB,{FROM_ONE}",
    "suspend:target=n2,every=3s,for=2700ms",
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_empty_folder(tmp_path, monkeypatch)


def all_effective(run: hf.Run) -> None:
    """Every fault took effect and left no problem, and no promise of exclusion was broken."""
    faults = run.faults()
    assert len(faults)
    assert faults.effective.all(), faults[["kind", "effective", "evidence"]].to_dict("records")
    assert list(run.judgement["problems"]) == []
    assert run.verdicts["mutual-exclusion"] != hf.Verdict.VIOLATED
    for fault in faults.itertuples():
        assert sum(fault.evidence["links"].values()) == fault.evidence["packets"] > 0


ONE_EACH = (
    "packet-loss:target=leader|one,every=7s,for=1s",
    "half-open:target=n1+n2+n3,peer=clients,every=7s,for=1s",
    "slow-links:target=clients,by=20ms,jitter=20ms,way=both,every=7s,for=1s",
    "mtu-black-hole:target=leader|one,mtu=100,every=7s,for=1s",
)


@pytest.mark.usefixtures("here")
def test_links_of_servers_and_of_clients_are_hit() -> None:
    all_effective(hf.run(nemesis=",".join(ONE_EACH), lease="1s", time="7s", seed=1))


@pytest.mark.usefixtures("here")
def test_servers_with_little_of_everything_keep_their_promises() -> None:
    limits = [
        "cpu-quota:target=leader|one,every=7s,for=1s",
        "open-files:target=n1,every=7s,for=1s",
        "memory-limit:target=n2,every=7s,for=1s",
        "suspend:target=holder,every=7s,for=2s",
    ]
    run = hf.run(nemesis=",".join(limits), lease="1s", time="7s", seed=1)
    faults = run.faults()
    assert len(faults) == 4
    assert faults.effective.all(), faults[["kind", "effective", "evidence"]].to_dict("records")
    assert list(run.judgement["problems"]) == []
    assert run.verdicts["mutual-exclusion"] != hf.Verdict.VIOLATED


@pytest.mark.docker
def test_links_of_containers_are_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.engine()
    monkeypatch.chdir(tmp_path)
    nemesis = ",".join((*ONE_EACH, "neighbour-lost:target=leader|one,every=7s,for=1s"))
    all_effective(hf.run(backend="docker", nemesis=nemesis, lease="1s", time="7s", seed=1))


@pytest.mark.usefixtures("here")
def test_under_corruption_nothing_is_promised() -> None:
    plan = Plan(
        system="reference",
        backend="local",
        workload="critical-section",
        nemeses=(("packet-corrupt", {}),),
        time_ns=20 * SECOND,
        seed=1,
    )
    prepared = prepare.prepared(plan)
    assert not {"packet-corrupt", "any"} & {*prepared.promises.keeps["mutual-exclusion"]}


@pytest.mark.parametrize("backend", ["local-proxy", "sim"])
def test_a_backend_without_networks_refuses_before_the_run(backend: str) -> None:
    plan = Plan(
        system="reference",
        backend=backend,
        workload="critical-section",
        nemeses=(("zero-window", {}),),
        time_ns=20 * SECOND,
        seed=1,
    )
    with pytest.raises(UsageError, match=r"nemesis zero-window (needs one network per node|does)"):
        prepare.complete(plan)


BACKENDS = ["local", pytest.param("docker", marks=pytest.mark.docker)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("who", ["driver", "agent", "both"])
def test_whoever_is_killed_amid_every_kind_no_network_of_the_run_is_left(
    tmp_path: Path, backend: str, who: str
) -> None:
    """Rules, queues and neighbour entries end with their network namespaces."""
    needs.engine() if backend == "docker" else needs.namespaces()
    run = aborted.start(tmp_path, backend, 3, faults=",".join(KINDS))
    kill_amid(run, {kind.partition(":")[0] for kind in KINDS}, who)


def kill_amid(run: aborted.Started, wanted: set[str], who: str) -> None:
    """SIGKILL to the driver, the agent or both while these kinds are at work; no process, network,
    mount, loop device or control group of the run is left, and `doctor` finds nothing."""
    aborted.wait_for(
        lambda: injected(run.run_dir) >= wanted,
        60,
        lambda: f"injected: {injected(run.run_dir)}, and not {said_of(run.run_dir)}",
    )
    # Open, so that no other run of this host gets the number of one of them for its own.
    kept = [file for pid in aborted.processes_of(run.run_dir) if (file := network_file(pid)) >= 0]
    networks = {f"net:[{os.fstat(file).st_ino}]" for file in kept} - {network_of(os.getpid())}
    assert len(networks) >= 3
    label = json.loads((run.run_dir / "manifest.json").read_text())["label"]
    if "memory-limit" in wanted:
        assert label in [made_by for made_by, _ in memory_groups.find()]
    devices = devices_of(run)
    killed = [agent_of(run.run_dir)] if who != "driver" else []
    killed += [run.driver] if who != "agent" else []
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    run.process.wait(60)
    all_gone(run)
    aborted.wait_for(
        lambda: not [pid for pid in every_pid() if network_of(pid) in networks],
        10,
        "a process is left in a network of the run",
    )
    for file in kept:
        os.close(file)
    aborted.wait_for(
        lambda: label not in [made_by for made_by, _ in memory_groups.find()],
        10,
        "a control group of the run is left",
    )
    aborted.wait_for(lambda: not devices & attached(), 10, "a loop device of the run is left")
    assert run.run_dir.name not in Path("/proc/self/mountinfo").read_text()
    assert aborted.leftovers(run) == []


def attached() -> set[tuple[str, str]]:
    """(device, inode of its file) of each loop device that is attached on this host."""
    words = [needs.binary("losetup"), "--list", "--noheadings", "--output", "NAME,BACK-INO"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {(name, inode) for name, inode in map(str.split, said.splitlines())}


def devices_of(run: aborted.Started) -> set[tuple[str, str]]:
    """Those of `attached` that are mounted where the run's fault agent sees them."""
    mounts = Path(f"/proc/{agent_of(run.run_dir)}/mounts").read_text().splitlines()
    mounted = {line.split()[0] for line in mounts if str(run.run_dir) in line}
    return {device for device in attached() if device[0] in mounted}


def said_of(run_dir: Path) -> list[dict[str, object]]:
    """What the fault journal says of faults that did not take effect."""
    try:
        lines = (run_dir / "faults.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return [row for row in rows if row["event"] not in ("planned", "injected")]


def injected(run_dir: Path) -> set[str]:
    """The kinds that were injected so far."""
    try:
        lines = (run_dir / "faults.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return set()
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return {row["do"] for row in rows if row["event"] == "injected"}


def every_pid() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def network_file(pid: int) -> int:
    """A descriptor of the network of a process, -1 if the process is gone."""
    try:
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    except OSError:
        return -1


def network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""
