"""^C in everything that simulates: one line says where things are and how to go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.harness.core.seeds import stream
from tests.front import aborted

pytestmark = pytest.mark.slow

CAMPAIGN = """seeds = 400
backend = "sim"
time = "20s"
systems = ["reference"]
workloads = ["critical-section"]
nemeses = ["kill"]
"""
FAILS = ("--system", "majority", "--nemesis", "clock", "--time", "20s", "--seed", "3")
COMMANDS = {
    "run": ("run", "--backend", "sim", "--time", "900s", "--seed", "1"),
    "shrink": ("shrink", "failing"),
    "campaign": ("campaign", "campaign.toml", "-j", "2", "--out", "campaign"),
    "campaign-1": ("campaign", "campaign.toml", "-j", "1", "--out", "campaign"),
    "sim": ("sim", "--seeds", "900", "-j", "2"),
    "sim-1": ("sim", "--seeds", "900", "-j", "1"),
    "debug": ("debug", "long"),
    "explain": ("explain", "failing"),
    "replay": ("replay", "long", "--times", "50"),
}
LINES = ("interrupted: ", "interrupted after ", "interrupted before ", "interrupted; ")
LOADED = """
import os, runpy, signal, sys
from importlib.abc import MetaPathFinder

class Interrupts(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts())
sys.argv[:] = ["holdfast", "run", "--time", "{time}"]
{start}
"""
DONE = """
import atexit, os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv[:] = ["holdfast", "list", "nemeses"]
{start}
"""
STARTS = {
    "module": 'sys.path.insert(0, ""); runpy.run_module("holdfast", run_name="__main__")',
    "script": "from holdfast.__main__ import main; main()",
}
POOL = """
import os, signal
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from holdfast.engine import seed_search

def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    return seed_search.warm_worker

class Begins:
    def __reduce__(self):
        return interrupted, ()

    def __call__(self):
        raise AssertionError

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with seed_search.Pool(1, get_context("spawn"), initializer=Begins()) as pool:
        try:
            pool.submit(abs, 1).result()
        except BrokenProcessPool:
            print("ended")
"""
MOMENTS = [pytest.param(n, marks=pytest.mark.power if n > 1 else ()) for n in range(20)]


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign, a long simulated run, and one with a violation."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "campaign.toml").write_text(CAMPAIGN)
    for name, words in (("long", ("--time", "200s", "--seed", "1")), ("failing", FAILS)):
        words = ("run", "--backend", "sim", *words, "--out", f"runs-{name}")
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=folder,
            env=environ(folder),
            capture_output=True,
            text=True,
        )
        assert done.returncode in ((1,) if name == "failing" else (0, 3)), done.stdout + done.stderr
        (folder / name).symlink_to((folder / f"runs-{name}" / "latest").resolve())
    explain = [sys.executable, "-m", "holdfast", *COMMANDS["explain"]]
    whole = subprocess.run(explain, cwd=folder, env=environ(folder), capture_output=True, text=True)
    (folder / "explained").write_text(whole.stdout + whole.stderr)
    return folder


def begun(process: subprocess.Popen[str]) -> None:
    """Waits until the command line is loaded, or the command has ended."""
    loaded = Path(f"/proc/{process.pid}/maps")
    aborted.wait_for(
        lambda: process.poll() is not None or "msgspec" in loaded.read_text(),
        60,
        "the command does not begin",
    )


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_is_one_line(here: Path, command: str, moment: int) -> None:
    """To the whole group of processes, as a terminal sends it; a debugger's prompt too."""
    # A campaign goes on where the last one was interrupted, and would be complete one day.
    shutil.rmtree(here / "campaign", ignore_errors=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *COMMANDS[command]],
        cwd=here,
        env=environ(here),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # As at a terminal: whoever runs the tests in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        begun(process)
        after = stream(moment, f"interrupt of {command}").uniform(0, 3.0)
        over = aborted.until(after)
        aborted.wait_for(lambda: over() or process.poll() is not None, 10, "no time")
        ended = process.poll() is not None
        os.killpg(process.pid, signal.SIGINT) if not ended else None
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert not [word for word in ("ignored", "Traceback", "coroutine") if word in output], output
    if process.returncode == 0 and command in ("explain", "shrink"):
        # It had answered before the signal came, and Python was ending.
        explained, last = (here / "explained").read_text(), output.splitlines()[-1]
        assert output == explained if command == "explain" else "report: holdfast run" in last
    elif not ended:
        # Python ends itself by the signal if it came inside exec(), as of a dataclass: to a shell
        # that is 130 too.
        assert process.returncode in (130, -signal.SIGINT), output
        lines = [line.removeprefix("holdfast: ") for line in output.splitlines()]
        said = [line for line in lines if line.startswith(LINES) or "; interrupted: " in line]
        assert len(said) == 1, output


@pytest.mark.parametrize("start", STARTS)
def test_an_interrupt_after_the_answer_changes_nothing(start: str) -> None:
    text = DONE.format(start=STARTS[start])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pause" in done.stdout


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "module", ["holdfast.commands", "click", "msgspec", "holdfast.harness.runs.registry"]
)
def test_an_interrupt_while_the_command_line_is_loaded_is_one_line(start: str, module: str) -> None:
    text = LOADED.format(module=module, start=STARTS[start], time="1s")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130, done.stderr
    # Click begins a new line, after the ^C that a terminal shows.
    assert done.stderr.lstrip() == "holdfast: interrupted; the same command starts again\n"


def test_an_interrupt_while_a_process_of_a_pool_is_loaded_ends_it_without_a_word(
    tmp_path: Path,
) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


DROPPED = """
import gc, os, signal, sys

collections = 0

def interrupts(phase, info):
    global collections
    # Each seed ends with one.
    collections += info["generation"] == 2 and "holdfast.engine.seed_search" in sys.modules
    if collections == 12:
        os.kill(os.getpid(), signal.{number})

signal.signal(signal.SIGINT, signal.default_int_handler)
gc.callbacks.append(interrupts)
sys.argv[:] = ["holdfast", "sim", "--seeds", "900", "-j", "1"]
from holdfast.__main__ import main; main()
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_python_drops_is_not_lost(number: str) -> None:
    """What is raised in a callback of the garbage collector, or in a destructor."""
    text = DROPPED.format(number=number)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130
    assert "ignored" not in done.stderr and "Traceback" not in done.stderr
    assert "; go on with `" in done.stderr


@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.parametrize("command", ["campaign", "sim"])
def test_a_signal_to_the_command_alone_is_answered_as_at_a_terminal(
    here: Path, tmp_path: Path, command: str, in_background: bool
) -> None:
    """As a runner of CI does, by SIGTERM; the processes of the pool get no signal. In the
    background of a script ^C is ignored, and SIGTERM ends it at once."""
    disposition = signal.SIG_IGN if in_background else signal.SIG_DFL
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *COMMANDS[command]],
        cwd=tmp_path,
        env=environ(here),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, disposition),
    ) as process:
        begun(process)
        aborted.wait_for(aborted.until(1.0), 10, "no time")
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGTERM if in_background else 130), output
    if in_background:
        return
    assert not [word for word in ("ignored", "Traceback", "leaked") if word in output], output
    assert "interrupted" in output
