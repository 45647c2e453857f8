"""A folder that hands a finding on: a script without Holdfast, a drawing, versions, issue text.

The script makes the calls of the two owners one after the other, without the run's other clients
and without its faults. Only what shows the bug in this way, in every trial against a new server,
is packaged.

A run directory may come from elsewhere, and what is written here is executed: names become Python
literals, and packages are those of the library's own row, from the folders that Holdfast fetched.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from holdfast.clusters.backends.children import DIES_WITH_DRIVER
from holdfast.clusters.libraries import environments
from holdfast.clusters.libraries.system import entry
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import reader
from holdfast.harness.judging.judge import stored
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Shown
from holdfast.reports.pictures.finding import draw
from holdfast.reports.pictures.standalone import standalone

PROPERTY = "mutual-exclusion"
TRIALS = 5
TRIAL_S = 30
READY_S = 10
SHOWS = 1
"""Exit code of the script if it shows the bug; 0 if not."""
SERVER = "redis-server"
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """How a library is called in a script: its imports, a client of PORT, and a lock of a client.

    lock    with {name}, a literal, and {lease}, the lease in seconds or None
    """

    imports: str
    client: str
    lock: str
    acquire: str
    renew: str


_REDIS_LIKE = {
    "lock": "client.lock({name}, timeout={lease}, thread_local=False)",
    "acquire": "{owner}.acquire(blocking=False)",
    "renew": "{owner}.reacquire()",
}
SPOKEN: Mapping[str, Spoken] = {
    "redis": Spoken(imports="import redis", client="redis.Redis(port=PORT)", **_REDIS_LIKE),
    "valkey": Spoken(imports="import valkey", client="valkey.Valkey(port=PORT)", **_REDIS_LIKE),
    "sherlock": Spoken(
        imports="import redis\nimport sherlock",
        client="redis.StrictRedis(port=PORT)",
        lock="sherlock.RedisLock({name}, client=client, expire={lease}, timeout=0)",
        acquire="{owner}.acquire(blocking=False)",
        renew="{owner}.renew()",
    ),
}
"""Library -> how a script calls it, as its adapter does."""

SCRIPT = '''"""Two owners of one lock: {library} on a stock redis-server.

    pip install -r requirements.txt
    redis-server --port 6399 --save "" &
    python reproduce.py 6399

Exit code {shows} and "two owners": the bug. Exit code 0: the lock was not granted twice.
"""

import sys
import time

{imports}

PORT = int(sys.argv[1])
LEASE_S = {lease}  # None or 0: the lock does not expire


def lock():
    """A lock object with a client of its own, as in two processes."""
    client = {client}
    return {lock}


first, second = lock(), lock()
began = time.monotonic()
granted = {first_acquire}
print("first.acquire():", granted)
{renewals}again = {second_acquire}
print("second.acquire():", again)
expired = bool(LEASE_S) and time.monotonic() - began >= LEASE_S
if granted and again and not expired:
    print("two owners: the first one released nothing, and its lease has not run out")
    sys.exit({shows})
print("not shown")
'''
RENEWALS = 'for _ in range({count}):\n    print("first renews:", {renew})\n'

ISSUE = """# {library}: the lock is granted to a second client while the first one holds it

{sentence} (time since the start of the run; c1, c2 ...: clients).

![The two holds](finding.svg)

## To reproduce

`reproduce.py` needs only the library and a stock Redis server:

```console
$ pip install -r requirements.txt
$ redis-server --port 6399 --save "" &
$ python reproduce.py 6399
```

It printed in {shown} of {trials} trials, each with a new server:

```text
{output}
```

Expected: the second `acquire()` returns False until the first owner has released the lock.

## Versions

{versions}

## How it was found

A run of {seconds:.0f} s had {findings} such grants:

```console
$ {command}
```
"""


def write(run: RunDir, target: Path) -> tuple[int, int]:
    """Writes the folder; how often the script showed the bug, of how many trials.

    UsageError if the run has no such finding, or it is one that a script without Holdfast does not
    show; EnvironmentFailed if there is no server to try it on.
    """
    if target.exists():
        raise UsageError(f"{target} exists; choose another folder with --out")
    if not run.has(run.verdicts):
        raise UsageError(f"{run.path}: not judged; judge it first with: holdfast check {run.path}")
    judged, manifest = stored(run), run.read_manifest()
    findings = _findings(judged)
    pins, spoken = _library(manifest)
    pin = pins[0]
    text = script(pin, spoken, manifest, findings[0], _renewals(run, findings[0]))
    if shutil.which(SERVER) is None:
        raise EnvironmentFailed(f"{SERVER} is not installed; the script is tried on it")
    packages = environments.fetch(pins)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        path = Path(scratch) / "reproduce.py"
        path.write_text(text)
        done = [_tried(path, packages) for _ in range(TRIALS)]
    shown = sum(code == SHOWS for code, _ in done)
    if shown < TRIALS:
        last = done[-1][1].splitlines()[-1:] or ["no output"]
        raise UsageError(
            f"not packaged: without the run's other clients and faults the calls of the two owners"
            f" show it in {shown} of {TRIALS} trials; the last one: {last[0]}"
        )
    target.mkdir(parents=True)
    (target / "reproduce.py").write_text(text)
    (target / "requirements.txt").write_text("".join(f"{one}\n" for one in pins))
    (target / "finding.svg").write_text(drawing(findings[0], judged))
    (target / "issue.md").write_text(
        ISSUE.format(
            library=pin,
            sentence=_plain(findings[0].sentence),
            shown=shown,
            trials=TRIALS,
            output=done[0][1].strip(),
            versions=_versions(pins),
            seconds=(judged.stop_ns - judged.start_ns) / SECOND,
            findings=len(findings),
            command=_plain(judged.command),
        )
    )
    return shown, TRIALS


def script(pin: str, spoken: Spoken, manifest: Manifest, finding: Shown, renewals: int) -> str:
    """The script for a finding whose first owner renewed so often before the second grant."""
    expire = manifest.plan.options.get("expire", "lease")
    lease = {"none": "None", "zero": "0"}.get(expire, f"{manifest.plan.lease_ns / SECOND:g}")
    return SCRIPT.format(
        library=pin,
        shows=SHOWS,
        imports=spoken.imports,
        lease=lease,
        client=spoken.client,
        lock=spoken.lock.format(name=repr(finding.lock), lease="LEASE_S"),
        first_acquire=spoken.acquire.format(owner="first"),
        second_acquire=spoken.acquire.format(owner="second"),
        renewals=RENEWALS.format(count=renewals, renew=spoken.renew.format(owner="first"))
        if renewals
        else "",
    )


def drawing(finding: Shown, judged: Judged) -> str:
    """The report's drawing of a finding as a picture of its own."""
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    return standalone(str(draw(finding, 1, judged, "broken")))


def _findings(judged: Judged) -> Sequence[Shown]:
    """Double grants of one lock, of a system that promised exclusion."""
    broken = [one for one in judged.verdicts if one.property == PROPERTY and one.promised]
    found = [
        finding
        for one in broken
        for finding in one.findings
        if len({event.attempt for event in finding.witnesses if event.op in ("acquire", "try")})
        == 2
    ]
    if not found:
        raise UsageError(
            f"not packaged: run {judged.run} has no violation of a promised {PROPERTY}; only such"
            " findings are packaged"
        )
    return found


def _library(manifest: Manifest) -> tuple[Sequence[str], Spoken]:
    """The pins of the library under test, its own first, and how it is called. UsageError for any
    other."""
    plan, options = manifest.plan, manifest.plan.options
    name = options.get("library", "").partition("==")[0]
    if plan.system != "redis" or name not in SPOKEN:
        raise UsageError(
            f"not packaged: only findings in the libraries {', '.join(SPOKEN)} on system redis are"
        )
    for option, usual in (("way", "call"), ("renew", "call"), ("api", "sync")):
        if options.get(option, usual) != usual:
            raise UsageError(f"not packaged: only findings with {option}={usual} are")
    wanted = options["library"]
    if "==" in wanted and not PIN.fullmatch(wanted):
        raise UsageError(f"not packaged: {wanted!r} is no package and version")
    return load(entry(plan.system, {"library": wanted})).libraries, SPOKEN[name]


def _renewals(run: RunDir, finding: Shown) -> int:
    """How often the first owner had renewed before the second one was granted the lock."""
    first, second = sorted(
        (event for event in finding.witnesses if event.op in ("acquire", "try")),
        key=lambda event: event.t_ret_ns,
    )
    rows = reader.load(run.history).history.rows
    mine = (rows["attempt"] == first.attempt) & (rows["f"] == int(Op.RENEW))
    done = rows[mine & (rows["t_inv"] < second.t_ret_ns) & (rows["status"] == int(Status.OK))]
    return len(done)


def _plain(text: str) -> str:
    """One line of a run directory as text between the author's own."""
    return html.escape(" ".join(text.split()), quote=False).replace("`", "'")


def _tried(path: Path, packages: Path) -> tuple[int, str]:
    """The script's exit code and its output, on a server of its own; if it has none, its errors."""
    with _server(path.parent) as port:
        done = subprocess.run(
            [*DIES_WITH_DRIVER, sys.executable, "-P", str(path), str(port)],
            capture_output=True, text=True, timeout=TRIAL_S, check=False,
            env={**os.environ, "PYTHONPATH": str(packages)},
        )  # fmt: skip
    return done.returncode if "two owners" in done.stdout else 0, done.stdout or done.stderr


@contextmanager
def _server(folder: Path) -> Iterator[int]:
    """The port of a stock server without data, on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        *DIES_WITH_DRIVER, SERVER, "--bind", "127.0.0.1", "--port", str(port), "--save", "",
        "--dir", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        over_s = time.monotonic() + READY_S
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > over_s:
                raise EnvironmentFailed(f"{SERVER} was not ready within {READY_S} s")
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _versions(pins: Sequence[str]) -> str:
    said = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=False).stdout
    server = re.search(r"v=(\S+)", said)
    found = [
        *pins,
        f"{SERVER} {server[1] if server else 'of unknown version'}",
        f"Python {sys.version.split()[0]}",
    ]
    return "\n".join(f"- {one}" for one in found)
