"""A lock that sets its key in one request and draws its token in the next, on a real Redis.

A client that is stopped between the two draws a larger token than the holder's, and writes with it:
its token is out of order, or both held at once. Neither explanation may excuse the other.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import needs
from tests.front.faulted import in_empty_folder
from tests.front.said import holdfast

LOCK = """
import socket
import time

WHOSE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
RENEW = WHOSE + "return redis.call('pexpire', KEYS[1], ARGV[2])"
FREE = WHOSE + "return redis.call('del', KEYS[1])"


class TwoRequests:
    tokens = "ordered"
    proves = True
    promises = {"mutual-exclusion": "any", "token-order": "any"}

    def __init__(self, servers, options):
        self.address = (servers[0][1], 6379)
        self.lines = None

    def ask(self, *words):
        if self.lines is None:
            self.socket = socket.create_connection(self.address, timeout=1)
            self.lines = self.socket.makefile("rb")
        parts = "".join(f"${len(str(word))}\\r\\n{word}\\r\\n" for word in words)
        try:
            self.socket.sendall(f"*{len(words)}\\r\\n{parts}".encode())
            return self.lines.readline().decode().strip()[1:]
        except OSError:
            self.lines = None
            raise

    def acquire(self, lock, owner, lease_s):
        if self.ask("SET", lock, owner, "NX", "PX", int(lease_s * 1000)) != "OK":
            return False
        time.sleep(0.4)  # it looks something up
        return int(self.ask("INCR", lock + ":token"))

    def renew(self, lock, owner, lease_s):
        return self.ask("EVAL", RENEW, 1, lock, owner, int(lease_s * 1000)) == "1"

    def release(self, lock, owner):
        return self.ask("EVAL", FREE, 1, lock, owner) == "1"
"""
WORDS = (
    "--resource", "fenced", "--clients", "3", "--lease", "800ms", "--time", "20s",
    "--set", "writes=8", "--set", "gap_ms=50", "--until-violation",
    "--nemesis", "pause:target=c1,every=1700ms,for=1200ms",
)  # fmt: skip
SEEDS = range(1, 5)


@pytest.mark.slow
@pytest.mark.real_server
def test_a_token_that_is_drawn_late_is_a_violation_that_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of a few runs: the pause has to come between the two requests of c1."""
    needs.binary("redis-server")
    in_empty_folder(tmp_path, monkeypatch)
    Path("two.py").write_text(LOCK)
    for seed in SEEDS:
        said = holdfast(
            capsys, "run", "--system", "two.py:TwoRequests@redis", *WORDS, "--seed", str(seed)
        )
        if said.code == 1:
            break
        assert said.code in (0, 3), said.out + said.err
    text = " ".join((said.out + said.err).split())
    assert "fencing tokens were out of order" in text, text
    assert "its token is out of order, or both held at once" in text
    assert "broke its promise of token order" in text
    assert holdfast(capsys, "verify", ".holdfast/runs/latest").code == 0
    undecided(capsys, Path(".holdfast/runs/latest"))


def undecided(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    """The same recording of a lock that promises one of the two: exit code 3, and the first
    sentence names both."""
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["promises"]["keeps"]["token-order"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    said = holdfast(capsys, "check", str(run), "--json")
    assert said.code == 3, said.out + said.err
    judged = {row["property"]: row for row in json.loads(said.out)["verdicts"]}
    (sentence,) = judged["mutual-exclusion"]["either"]
    assert "out of order, or two held it at once" in sentence
    assert "either" not in judged["deadlock-freedom"]
    said = holdfast(capsys, "check", str(run))
    assert " ".join(said.out.split()).startswith(f"UNKNOWN: {sentence}."), said.out
