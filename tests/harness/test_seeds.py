"""Chance comes from one seed, by name."""

from __future__ import annotations

import subprocess
import sys

from holdfast.harness.core.seeds import stream


def test_one_name_gives_one_stream_in_every_process() -> None:
    code = "from holdfast.harness.core.seeds import stream; print(stream(7, 'a', 1).random())"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1", "77")
    }
    assert told == {str(stream(7, "a", 1).random())}


def test_names_do_not_run_into_each_other() -> None:
    firsts = {stream(1, "a", "b").random(), stream(1, "ab").random(), stream(1, "a b").random()}
    assert len(firsts) == 3
