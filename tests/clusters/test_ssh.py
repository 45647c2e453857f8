"""The ssh backend on five hosts with a real sshd: whole runs, and what goes wrong on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.harness.core.clock import SECOND
from tests import needs
from tests.clusters import distant
from tests.clusters.bed import Bed
from tests.clusters.distant import Ran
from tests.front import aborted

pytestmark = pytest.mark.docker

AT_THE_AGENT_NS = 10_000_000
WITHIN_S = 150
MINUTE = 60 * SECOND


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Five hosts; on h4 nobody may use sudo, on h5 only with a password."""
    needs.engine()
    folder = tmp_path_factory.mktemp("bed")
    sudo = {"h4": "", "h5": "tester ALL=(ALL) ALL"}
    with Bed(folder / "bed", sudo=sudo, tmpfs={"h3": "80m"}, shared=("h1", "h2")) as made:
        yield made


def run(folder: Path, hosts: Path, *words: str, **env: str) -> Ran:
    """One run over these hosts, to its end."""
    return distant.run(folder, ["--backend", "ssh", "--hosts", str(hosts), *words], **env)


def refused(ran: Ran, *parts: str) -> None:
    """It ended in the exit code of the environment, with one message that has these parts."""
    assert ran.code == 4, ran.err
    for part in parts:
        assert part in ran.err, ran.err


def stewards(bed: Bed, host: str) -> list[int]:
    """Pids, on this machine, of the stewards of a host."""
    table = table_of(bed.container(host))
    return [
        int(pid)
        for pid, words in table
        if words.startswith("python3 -S") and ".host_agent" in words
    ]


def agents_of(bed: Bed, host: str) -> list[int]:
    """Pids, on this machine, of the fault agents of a host."""
    table = table_of(bed.container(host))
    return [int(pid) for pid, words in table if "nemesis.agent" in words]


def table_of(container: str) -> list[tuple[str, str]]:
    """Pid and words of every process of a container, by this machine's pids."""
    listed = subprocess.run(
        ["docker", "top", container, "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    return [(pid, words) for pid, words in (line.split(None, 1) for line in listed)]


def clean(bed: Bed) -> None:
    """Nothing of a run is left on the hosts."""
    assert bed.folders_left() == []
    assert bed.processes_left() == []


def test_a_run_over_hosts_bites_heals_and_leaves_nothing(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2", "h3"))
    words = ("--nemesis", "partition,pause:target=holder,kill,clock", "--time", "10s")
    ran = run(tmp_path, hosts, *words, "--seed", "2", "--clients", "3")
    assert ran.code in (0, 3), ran.err
    rows = ran.faults()
    assert {row["do"] for row in rows if row.get("effective")} >= {"partition", "pause", "kill"}
    assert not [row for row in rows if row["event"] == "failed"]
    times = [row["evidence"]["took_ns"] for row in rows if row["event"] in ("injected", "healed")]
    assert sorted(times)[len(times) // 2] < AT_THE_AGENT_NS
    clocks = ran.verdicts()["clocks"]
    assert set(clocks) == {"h1", "h2", "h3"}
    # The containers share the kernel's clock with us: the truth is 0, and inside every bound.
    for clock in clocks.values():
        assert abs(clock["offset_ns"]) <= clock["error_ns"] < 10_000_000
    assert ran.verdicts()["problems"] == []
    stamped = ran.verdicts()["evidence"]["narrowed"]
    assert stamped["lock_narrowed"] >= 0.9 * stamped["lock_calls"] > 0
    clean(bed)


def test_links_and_limits_of_hosts(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2", "h3"))
    for_all = "target=leader|one,every=9s,for=2s"
    # Containers have no CAP_SYS_PTRACE, so that open-files is refused on these hosts.
    kinds = ("packet-loss", "mtu-black-hole:mtu=100", "slow-links:by=20ms", "cpu-quota")
    faults = ",".join(f"{kind}{',' if ':' in kind else ':'}{for_all}" for kind in kinds)
    ran = run(tmp_path, hosts, "--nemesis", faults, "--time", "10s", "--seed", "2")
    assert ran.code in (0, 3), ran.err
    rows = ran.faults()
    assert not [row for row in rows if row["event"] == "failed"]
    effective = {row["do"] for row in rows if row["event"] == "healed" and row.get("effective")}
    assert effective == {kind.partition(":")[0] for kind in kinds}
    assert ran.verdicts()["problems"] == []
    clean(bed)


@pytest.mark.power
def test_redis_and_its_library_travel(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2"))
    ran = run(tmp_path, hosts, "--system", "redis", "--time", "3s", "--clients", "2")
    assert ran.code in (0, 3), ran.err
    rows = {row["property"]: row["verdict"] for row in ran.verdicts()["verdicts"]}
    assert rows["mutual-exclusion"] == "HOLDS"
    clean(bed)


def skewed(bed: Bed) -> Path:
    """Hosts h1 and h2, eight minutes apart and drifting apart by 200 ppm."""
    bed.skew("h1", 3 * MINUTE, 100)
    bed.skew("h2", -5 * MINUTE, -100)
    return bed.hosts_file(names=("h1", "h2"), python='"/bed/skewed-{name}"')


@pytest.mark.power
def test_hosts_whose_clocks_are_minutes_apart_show_no_false_double_holder(
    tmp_path: Path, bed: Bed
) -> None:
    ran = run(tmp_path, skewed(bed), "--time", "3s", "--clients", "2", "--nodes", "1")
    assert ran.code in (0, 3), ran.err
    found = ran.verdicts()
    rows = {row["property"]: row for row in found["verdicts"]}
    assert rows["mutual-exclusion"]["verdict"] == "HOLDS", rows["mutual-exclusion"]["reason"]
    # What the driver adds to a host's stamps is minus what the host is ahead.
    ahead = {host: -clock["offset_ns"] // 1_000_000_000 for host, clock in found["clocks"].items()}
    assert abs(ahead["h1"] - 180) <= 1 and abs(ahead["h2"] + 300) <= 1
    clean(bed)


@pytest.mark.power
def test_a_lock_that_is_none_is_found_out_over_such_hosts(tmp_path: Path, bed: Bed) -> None:
    ran = run(tmp_path, skewed(bed), "--system", "none", "--time", "3s", "--clients", "2")
    rows = {row["property"]: row["verdict"] for row in ran.verdicts()["verdicts"]}
    assert rows["mutual-exclusion"] == "VIOLATED"
    clean(bed)


def test_all_hosts_that_cannot_take_part_are_told_at_once(tmp_path: Path, bed: Bed) -> None:
    """h1 refuses the key, h2 nobody vouched for, h3 has another key than before, h4 has no sudo
    for us, and where h5 should be there is nobody."""
    hosts = bed.hosts_file()
    down = bed.addresses["h5"].rpartition(".")[0] + ".250"
    text = hosts.read_text().replace(f'"{bed.addresses["h5"]}"', f'"{down}"')
    text = text.replace(str(bed.folder / "login"), str(bed.folder / "h1"), 1)
    known = tmp_path / "known"
    rows = {row.split()[0]: row for row in bed.known_hosts.read_text().splitlines()}
    _, other, blob = rows[bed.addresses["h2"]].split()
    changed = f"{bed.addresses['h3']} {other} {blob}"
    known.write_text("\n".join([rows[bed.addresses["h1"]], changed, rows[bed.addresses["h4"]], ""]))
    hosts.write_text(text.replace(str(bed.known_hosts), str(known)))
    ran = run(tmp_path, hosts)
    refused(ran, "ssh: h1:", "was refused for tester", "authorized_keys")
    refused(ran, "ssh: h2:", "unknown host key ssh-ed25519 SHA256:", "ssh-keyscan -p 22", ">>")
    refused(ran, "ssh: h3:", "has CHANGED", "ssh-keygen -f", "-R")
    refused(ran, "ssh: h4: sudo refused tester", "sudo_password_env")
    refused(ran, f"ssh: h5: {down}:22 cannot be reached: ", "is it up, and do `address`")
    assert "[Errno" not in ran.err
    clean(bed)


BLOCKED = """add table inet shut
add chain inet shut in { type filter hook input priority 0; }
add rule inet shut in udp dport 4789 drop
"""


@pytest.mark.parametrize("way", ["firewall", "elsewhere"])
def test_hosts_that_do_not_reach_each_other_are_told_before_the_run(
    tmp_path: Path, bed: Bed, way: str
) -> None:
    """A firewall on h2; and an `inner` of h2 where there is nobody."""
    hosts = bed.hosts_file(names=("h1", "h2", "h3"))
    lost = ["h1 to h2", "h3 to h2"]
    if way == "elsewhere":
        nowhere = bed.addresses["h2"].rpartition(".")[0] + ".250"
        there = f'address = "{bed.addresses["h2"]}"\n'
        hosts.write_text(hosts.read_text().replace(there, f'{there}inner = "{nowhere}"\n'))
    else:
        bed.on("h2", "bash", "-c", f"nft -f - <<'END'\n{BLOCKED}END")
    try:
        begun = time.monotonic()
        ran = run(tmp_path, hosts, "--time", "5s", "--clients", "2")
        took_s = time.monotonic() - begun
    finally:
        bed.on("h2", "nft", "delete", "table", "inet", "shut", check=False)
    refused(ran, "no packet passes the tunnel from ", "UDP port 4789", *lost)
    assert "h1 to h3" not in ran.err and "h3 to h1" not in ran.err
    assert len([line for line in ran.err.splitlines() if "ssh:" in line]) == 1, ran.err
    assert took_s < 60
    clean(bed)


def test_two_hosts_with_one_disk_are_told_before_the_run(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2", "h3"), folder='"/bed-disk"')
    text = hosts.read_text()
    last = text.rindex('folder = "/bed-disk"')
    hosts.write_text(text[:last] + 'folder = "/var/tmp"\n')
    ran = run(tmp_path, hosts, "--time", "5s", "--clients", "2")
    refused(ran, "has the same disk: its folder of the run, /bed-disk/holdfast-", "set another")
    lines = [line for line in ran.err.splitlines() if "ssh:" in line]
    assert len(lines) == 1, ran.err
    assert "h1: host h2 has" in ran.err or "h2: host h1 has" in ran.err
    assert bed.on("h1", "find", "/bed-disk", "-mindepth", "1") == ""
    clean(bed)


@pytest.mark.power
def test_sudo_takes_its_password_from_the_environment(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h5", "h1"), sudo_password_env='"TEST_SUDO"')
    refused(run(tmp_path, hosts), "TEST_SUDO, which is not set; export it")
    wrong = run(tmp_path, hosts, TEST_SUDO="no")
    refused(wrong, "h5: sudo refused tester: the password is wrong; correct the", "TEST_SUDO")
    ran = run(tmp_path, hosts, "--time", "1s", "--clients", "2", TEST_SUDO=bed.password)
    assert ran.code in (0, 3), ran.err
    for path in (ran.runs / "latest").resolve().rglob("*"):
        assert not path.is_file() or bed.password.encode() not in path.read_bytes(), path
    clean(bed)


@pytest.mark.power
def test_a_full_disk_is_told_before_the_run(tmp_path: Path, bed: Bed) -> None:
    bed.on("h3", "dd", "if=/dev/zero", "of=/var/tmp/fill", "bs=1M", "count=60")
    try:
        ran = run(tmp_path, bed.hosts_file(names=("h1", "h3")))
        refused(ran, "ssh: host h3: /var/tmp has", "MiB free", "make room")
    finally:
        bed.on("h3", "rm", "/var/tmp/fill")
    clean(bed)


@pytest.mark.power
def test_the_way_may_lead_through_another_machine(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2"))
    jump = f'address = "{bed.addresses["h1"]}"\nuser = "tester"\nkey = "{bed.folder / "login"}"'
    hosts.write_text(f"{hosts.read_text()}[host.jump]\n{jump}\n")
    ran = run(tmp_path, hosts, "--time", "1s", "--clients", "2", "--nodes", "1")
    assert ran.code in (0, 3), ran.err
    clean(bed)


@contextmanager
def key_agent(folder: Path, key: Path) -> Iterator[str]:
    """An ssh-agent that has this key; the path of its socket."""
    plug = folder / "agent"
    argv = [needs.binary("ssh-agent"), "-D", "-a", str(plug)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as running:
        try:
            aborted.wait_for(plug.exists, 10, "the agent does not listen")
            env = {**os.environ, "SSH_AUTH_SOCK": str(plug)}
            subprocess.run(["ssh-add", "-q", str(key)], check=True, env=env, timeout=30)
            yield str(plug)
        finally:
            running.terminate()


@pytest.mark.power
def test_keys_may_be_those_of_an_agent_also_on_the_way(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2"), key='""')
    jump = f'address = "{bed.addresses["h1"]}"\nuser = "tester"'
    hosts.write_text(f"{hosts.read_text()}[host.jump]\n{jump}\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        key_agent(Path(folder), bed.folder / "login") as plug,
    ):
        ran = run(tmp_path, hosts, "--time", "1s", "--clients", "2", SSH_AUTH_SOCK=plug)
    assert ran.code in (0, 3), ran.err
    clean(bed)
    refused(run(tmp_path, hosts, SSH_AUTH_SOCK=""), "ssh: h1:", "there is no key", "ssh-add")


@pytest.mark.power
def test_a_disk_that_fills_midway_is_why_nothing_is_proved(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2", "h3"))
    started = aborted.start(tmp_path, "ssh", 5, ["--hosts", str(hosts), "--time", "12s"])
    try:
        bed.on("h3", "dd", "if=/dev/zero", "of=/var/tmp/fill", "bs=64k", check=False)
        assert started.process.wait(WITHIN_S) == 3
        verdicts = json.loads((started.run_dir / "verdicts.json").read_text())
        assert "n3 exited unexpectedly: cannot go on: " in verdicts["problems"][0]
        assert "No space left" in verdicts["problems"][0]
    finally:
        bed.on("h3", "rm", "/var/tmp/fill")
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait(10)
    clean(bed)


def test_a_killed_driver_leaves_hosts_that_heal_themselves(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2", "h3"))
    started = aborted.start(tmp_path, "ssh", 3, ["--hosts", str(hosts)])
    try:
        aborted.wait_for(
            lambda: aborted.stopped(aborted.processes_of(started.run_dir)),
            30,
            "nothing was ever paused",
        )
        # On h2 the steward dies too, and cannot clean up: it is frozen until the driver is gone.
        (steward,) = stewards(bed, "h2")
        bed.freeze("h2")
        aborted.kill(started, "both")
        killed = time.monotonic()
        os.kill(steward, signal.SIGKILL)
        bed.thaw("h2")
        aborted.wait_for(
            lambda: not aborted.processes_of(started.run_dir),
            aborted.HEAL_WITHIN_S,
            "a process of the run is still there",
        )
        assert time.monotonic() - killed < aborted.HEAL_WITHIN_S
        started.process.wait(60)
        label = started.run_dir.name
        told = [text for text in aborted.doctor(started, "--clean")["leftovers"] if label in text]
        assert f"host h2 has processes or files of run {label}" in told
        assert [text for text in aborted.doctor(started)["leftovers"] if label in text] == []
        clean(bed)
        assert aborted.nothing_acknowledged_is_missing(started.run_dir) > 0
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait(10)


@pytest.mark.power
def test_a_host_lost_midway_ends_the_run_and_the_history_until_then_is_judged(
    tmp_path: Path,
) -> None:
    needs.engine()
    with Bed(tmp_path / "bed", count=2) as bed:
        hosts = bed.hosts_file()
        started = aborted.start(tmp_path, "ssh", 4, ["--hosts", str(hosts)])
        try:
            rows = started.run_dir / "history" / "resource.seg"
            aborted.wait_for(lambda: rows.stat().st_size > 8000, 30, "nobody wrote")
            subprocess.run(["docker", "kill", bed.container("h2")], check=True, capture_output=True)
            assert started.process.wait(60) == 4
            said = (tmp_path / "said").read_text()
            assert "host h2 was lost" in said
            assert "Traceback" not in said
            verdicts = json.loads((started.run_dir / "verdicts.json").read_text())
            assert any("incomplete records from" in text for text in verdicts["problems"])
            assert aborted.nothing_acknowledged_is_missing(started.run_dir) > 0
            del bed.addresses["h2"]
            clean(bed)
        finally:
            if started.process.poll() is None:
                started.process.kill()
            started.process.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_interrupts_that_come_again_and_again_leave_nothing_on_hosts(
    tmp_path: Path, bed: Bed, number: signal.Signals
) -> None:
    hosts = bed.hosts_file(names=("h1", "h2"))
    started = aborted.start(tmp_path, "ssh", 6, ["--hosts", str(hosts)])
    try:

        def again() -> bool:
            started.process.send_signal(number)
            try:
                os.kill(started.driver, number)
            except ProcessLookupError:
                return True
            return started.process.poll() is not None

        aborted.wait_for(again, 60, "the driver does not leave")
        assert started.process.wait(60) == 130
        clean(bed)
    finally:
        started.process.kill()
        started.process.wait(10)


def test_after_its_driver_was_killed_the_command_cleans_the_hosts(tmp_path: Path, bed: Bed) -> None:
    """Also the host whose steward died with it."""
    hosts = bed.hosts_file(names=("h1", "h2"))
    started = aborted.start(tmp_path, "ssh", 7, ["--hosts", str(hosts)])
    try:
        (steward,) = stewards(bed, "h2")
        bed.freeze("h2")
        aborted.kill(started, "driver")
        os.kill(steward, signal.SIGKILL)
        bed.thaw("h2")
        assert started.process.wait(60) in (1, 4)
        clean(bed)
        label = started.run_dir.name
        assert [text for text in aborted.doctor(started)["leftovers"] if label in text] == []
    finally:
        started.process.kill()
        started.process.wait(10)


def test_a_dead_fault_agent_of_a_host_ends_the_run(tmp_path: Path, bed: Bed) -> None:
    hosts = bed.hosts_file(names=("h1", "h2"))
    started = aborted.start(tmp_path, "ssh", 8, ["--hosts", str(hosts)])
    try:
        os.kill(agents_of(bed, "h2")[0], signal.SIGKILL)
        assert started.process.wait(60) == 4
        assert "the fault agent of host h2 exited" in (tmp_path / "said").read_text()
        assert '"stop"' not in (started.run_dir / "times.jsonl").read_text()
        clean(bed)
    finally:
        started.process.kill()
        started.process.wait(10)


@pytest.mark.power
@pytest.mark.parametrize("seed", range(200, 220))
@pytest.mark.parametrize("what", ["^C", "driver", "agent", "command"])
def test_twenty_ends_at_random_moments(tmp_path: Path, bed: Bed, seed: int, what: str) -> None:
    hosts = bed.hosts_file(names=("h1", "h2"))
    started = aborted.start(tmp_path, "ssh", seed, ["--hosts", str(hosts)])
    aborted.end_at_random(started, seed, what, lambda: agents_of(bed, "h2")[0])
    aborted.wait_for(
        lambda: not (bed.folders_left() or bed.processes_left()), 10, "something is left on a host"
    )
    assert aborted.processes_of(started.run_dir) == []
