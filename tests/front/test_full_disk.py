"""A disk that fills, before, during and after a run: one line that says so and how to go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.harness.core.errors import NEXT
from holdfast.harness.verdicts.judged import NO_REPORT
from tests import needs
from tests.front import aborted

WITHIN_S = 150
SMALL = 'mkdir -p disk && mount -t tmpfs -o size="$0" tmpfs disk && cd disk && '
RUN = SMALL + 'exec "$@"'
FILLED = SMALL + (
    "{ { for i in $(seq 1200);"
    ' do grep -qs "$FILL_AT" ../said .holdfast/runs/*/faults.jsonl && break; sleep 0.05; done;'
    " cat /dev/zero > fill; } >/dev/null 2>&1 & };"
    ' "$@" 2>../said; code=$?; rm fill || code=9; cat ../said >&2; exit $code'
)
"""The same, and the disk fills as soon as the command's stderr, or its list of faults, says
$FILL_AT. Exit code 9: it did not."""
AFTER = SMALL + (
    '"$@" >/dev/null 2>&1; cat /dev/zero > fill 2>/dev/null; set -- "$1" "$2" "$3";'
    ' for words in "export --out rows.jsonl" "report" "report --html ../page.html"; do'
    ' "$@" $words .holdfast/runs/latest; echo "code $?"; done; ls'
)
"""A run, then the disk fills, then three commands on the run."""
LATE = ("  probe", "  collect")
LOCAL = ("--system", "redis", "--backend", "local", "--time", "3s")
SIMULATED = ("--system", "reference", "--backend", "sim", "--time", "4s", "--clients", "8")


def in_namespace() -> list[str]:
    """A command's prefix: mounts that it makes end with it."""
    prefix = [needs.binary("unshare"), "--mount", *(["--map-root-user"] if os.getuid() else [])]
    probe = [*prefix, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=10)
    needs.unless(tried.stderr.strip() if tried.returncode else None)
    return [*prefix, "sh", "-c"]


def run(
    folder: Path, size: str, words: Sequence[str], fill_at: str = "", script: str = ""
) -> subprocess.CompletedProcess[str]:
    """`holdfast run` whose run directories are on a disk of a size; afterwards nothing of it runs
    any more."""
    script = script or (FILLED if fill_at else RUN)
    argv = [*in_namespace(), script, size, sys.executable, "-m", "holdfast", "run", *words]
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"}
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**env, "FILL_AT": fill_at},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert "Traceback" not in done.stdout + done.stderr and "report it" not in done.stderr
    aborted.wait_for(lambda: not left_in(folder), 10, "a process is left")
    assert not [*(folder / "state" / "holdfast" / "registry").glob("[!.]*.json")]
    return done


def left_in(folder: Path) -> list[int]:
    """Processes that run on the disk."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def last_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("holdfast: ")]


@pytest.mark.parametrize("size", ["64k", "128k"])
def test_a_simulated_run_that_cannot_be_recorded_says_so(tmp_path: Path, size: str) -> None:
    done = run(tmp_path, size, SIMULATED)
    (line,) = last_lines(done)
    assert done.returncode == 4
    assert "/history/" in line and line.endswith(f"No space left on device: {NEXT}")


def test_a_verdict_that_cannot_be_stored_is_shown(tmp_path: Path) -> None:
    done = run(tmp_path, "256k", SIMULATED)
    assert done.returncode in (0, 3) and "seed" in done.stdout
    assert {line.split(": ")[1].rpartition("/")[2] for line in last_lines(done)} <= {
        "verdicts.json",
        "report.html",
        "orders.bin",
    }


@pytest.mark.parametrize("clients", [8, 20])
def test_clients_whose_files_the_disk_cannot_take_are_refused(tmp_path: Path, clients: int) -> None:
    done = run(tmp_path, "24m", [*LOCAL, "--clients", str(clients)])
    (line,) = last_lines(done)
    assert done.returncode == 4
    assert f"--clients {clients}, and it has 24 MiB free: {NEXT}" in line


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["  deploy", "pause", "  settle", *LATE])
def test_a_disk_that_another_program_fills_is_named(tmp_path: Path, moment: str) -> None:
    """The run ends early, or it has all its rows; whatever it says of its end is this reason."""
    words = [*LOCAL, "--clients", "4", "--nemesis", "pause:every=400ms,for=200ms"]
    done = run(tmp_path, "60m", words, moment)
    lines = [line for line in last_lines(done) if "holdfast: run directory:" not in line]
    reasons = [line for line in lines if "written" not in line]
    assert done.returncode in (0, 3, 4), done.stderr
    assert len(reasons) == (done.returncode == 4), done.stderr
    assert all("No space left on device" in line for line in lines)
    assert all(NEXT in line for line in reasons)
    if "No space left on device" not in done.stdout + done.stderr:
        # All was written while the disk was still being filled.
        assert moment in LATE and done.returncode != 4 and NO_REPORT not in done.stdout
    assert "no output" not in done.stdout + done.stderr


def test_commands_on_a_run_whose_disk_is_full_leave_nothing_half_written(tmp_path: Path) -> None:
    """Of an export nobody could tell that its end is missing. A report may go elsewhere."""
    done = run(tmp_path, "700k", SIMULATED, script=AFTER)
    assert [line for line in done.stdout.splitlines() if line] == [
        "code 4", "code 4", "report: ../page.html", "code 0", "fill",
    ]  # fmt: skip
    exported, stored, advice = last_lines(done)
    assert exported == f"holdfast: rows.jsonl: No space left on device: {NEXT}"
    assert stored.endswith("report.html: cannot be written: No space left on device")
    assert advice == "holdfast: no report: name a file in another folder, with --html FILE"
    assert "</html>" in (tmp_path / "page.html").read_text()[-100:]


def test_a_report_that_could_not_be_written_has_no_path(tmp_path: Path) -> None:
    """A limit on the size of files: the verdict is stored, the report is too large."""
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000,) * 2);"
    argv = [
        sys.executable,
        "-c",
        f"{limit} os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
    ]
    done = subprocess.run(
        [*argv, "-m", "holdfast", "run", *SIMULATED, "--seed", "3"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode in (0, 3)
    assert f"report  {NO_REPORT}" in done.stdout.splitlines()
    assert last_lines(done)[-1].endswith("report.html: cannot be written: File too large")
    (stored,) = (tmp_path / ".holdfast" / "runs").glob("[0-9]*")
    assert (stored / "verdicts.json").exists() and not [*stored.glob("report*")]
