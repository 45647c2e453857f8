"""The parts of the ssh backend that need no host: its file, what is mirrored, merged evidence."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.clusters.backends.ssh import hosts_file
from holdfast.clusters.backends.ssh.fault_agents import merged
from holdfast.clusters.backends.ssh.file_mirror import FileMirror
from holdfast.clusters.backends.ssh.host_channel import HostGone, Line
from holdfast.clusters.backends.ssh.remote_host import Copies
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import reader
from holdfast.harness.recording.segments import READY, Recorder


def test_a_hosts_file_becomes_hosts_again_by_way_of_the_manifest(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        'clock_bound = "5ms"\n[[host]]\nname = "a"\naddress = "192.0.2.1"\ninner = "10.0.0.1"\n'
        '[host.jump]\naddress = "gate"\n[[host]]\nname = "b"\naddress = "192.0.2.2"\nsudo = false\n'
    )
    found = hosts_file.from_manifest(hosts_file.read(path))
    first, second = found.hosts
    assert found.clock_bound_ns == 5_000_000
    assert (first.reached, second.reached) == ("10.0.0.1", "192.0.2.2")
    assert first.jump is not None and first.jump.address == "gate"
    assert first.sudo and not second.sudo and second.jump is None


def test_every_mistake_in_a_hosts_file_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        'clock_bond = "5ms"\n[[host]]\nname = "a"\naddress = "x"\nprot = 22\n'
        '[[host]]\nname = "b"\n[[host]]\nname = "c"\naddress = "y"\nport = "22"\n'
        '[[host]]\nname = "d"\naddress = "z"\n'
        + 2
        * '[[host]]\nname = "d"\naddress = "192.0.2.9"\n'
    )
    with pytest.raises(UsageError) as raised:
        hosts_file.read(path)
    told = "\n".join(raised.value.problems)
    assert "unknown key 'clock_bond'; did you mean 'clock_bound'?" in told
    assert "host 1: unknown key 'prot'" in told and "did you mean 'port'?" in told
    assert "host 2: missing address" in told
    assert "host 3: invalid port = '22': expected int" in told
    assert "two hosts have the name 'd'" in told and "two hosts have the address" in told
    assert "host 4: 'z' is not an IPv4 address" in told


def carried(mirror: FileMirror, copies: Copies) -> None:
    """One look, arrived."""
    for name, at, data in mirror.look()[0]:
        copies.write(name, at, base64.b64decode(data))


def test_what_was_fetched_is_what_was_recorded_at_every_look(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "history").mkdir(parents=True)
    mirror, copies = FileMirror(there), Copies(here)
    recorder = Recorder(there / "history", "c1", {"node": "c1", "processes": [1]})
    first = recorder.invoke(Op.ACQUIRE, 1, recorder.intern("lock"), attempt=1)
    carried(mirror, copies)
    (row,) = reader.load(here / "history").history.rows
    assert (row["status"], row["t_ret"]) == (Status.INVOKED, 0)
    second = recorder.invoke(Op.READ, 1, recorder.intern("other"), attempt=1)
    recorder.complete(second, Status.FAIL, err=recorder.intern("refused"))
    recorder.complete(first, Status.OK, token=7, res=1)
    recorder.tell(READY)
    carried(mirror, copies)
    recording = reader.load(here / "history")
    assert recording.states == {"c1": READY}
    assert list(recording.history.rows["status"]) == [Status.OK, Status.FAIL]
    assert recording.history.rows["token"][0] == 7
    assert recording.history.strings == ["", "lock", "other", "refused"]
    for n in range(2000):
        recorder.complete(recorder.invoke(Op.READ, 1, 1, attempt=n), Status.OK)
    recorder.close()
    carried(mirror, copies)
    carried(mirror, copies)
    copies.close()
    for name in ("c1.seg", "c1.strings"):
        assert (here / "history" / name).read_bytes() == (there / "history" / name).read_bytes()


def test_a_closed_segment_is_whole_here_after_every_piece(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "history").mkdir(parents=True)
    mirror, copies = FileMirror(there), Copies(here)
    with Recorder(there / "history", "c1", {"node": "c1", "processes": [1]}) as recorder:
        for n in range(1500):
            recorder.complete(recorder.invoke(Op.READ, 1, 0, attempt=n), Status.OK)
    seen = []
    for name, at, data in mirror.look()[0]:
        copies.write(name, at, base64.b64decode(data))
        seen.append(len(reader.load(here / "history").history.rows))
    copies.close()
    assert seen == [0, 512, 1024, 1500, 1500]
    assert reader.read_header(here / "history" / "c1.seg").rows == 1500


@pytest.mark.parametrize("name", ["manifest.json", "history/../x.seg", "logs/a/b.sh", "/etc/x"])
def test_a_host_cannot_write_where_it_should_not(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnvironmentFailed, match="sent a file with an invalid name"):
        Copies(tmp_path).write(name, 0, b"x")


def test_a_cut_bites_where_one_host_saw_it_and_a_pause_where_all_did() -> None:
    cut = [{"effective": False, "dropped": 0}, {"effective": True, "dropped": 4}]
    assert merged(cut, any_effective=True) == {"effective": True, "dropped": 4}
    pause = [
        {"effective": False, "states": {"n1": "S"}},
        {"effective": True, "states": {"n2": "T"}},
    ]
    joined = merged(pause, any_effective=False)
    assert joined == {"effective": False, "states": {"n1": "S", "n2": "T"}}


class SilentOnce:
    """A channel to a program whose answer to its first request comes one request late."""

    def __init__(self) -> None:
        self._out = [b'{"ok": true}\n']
        self._numbers: list[int] = []

    def settimeout(self, within_s: float) -> None:
        return

    def recv_ready(self) -> bool:
        return bool(self._out)

    def recv_stderr_ready(self) -> bool:
        return False

    def sendall(self, line: bytes) -> None:
        self._numbers.append(json.loads(line)["number"])
        if len(self._numbers) > 1:
            late = [json.dumps({"said": n, "number": n}).encode() for n in self._numbers]
            self._out.append(b"\n".join(late) + b"\n")

    def recv(self, most: int) -> bytes:
        if not self._out:
            raise TimeoutError
        return self._out.pop(0)


def test_a_hosts_late_answer_is_never_that_to_a_later_question() -> None:
    class Connection:
        host = hosts_file.Host(name="a", address="192.0.2.1", sudo=False)

        def run(self, argv: Sequence[str]) -> SilentOnce:
            return SilentOnce()

    line = Line(cast("Any", Connection()), ["program"])
    with pytest.raises(HostGone, match="no response within"):
        line.ask({"do": "leader"})
    assert line.ask({"do": "ready"}).answer == {"said": 2}
