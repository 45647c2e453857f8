"""What reading and judging a history of another tool costs: python -m benchmarks.foreign [OPS]

A lock's history and a register's, in every format that is read to columns, each judged by a process
of its own: CPU seconds and peak memory of the whole command, start included. Beside it what the
same file takes if it is read event by event, which is the number to compare with other machines.
Needs pyarrow for Parquet.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.harness.core import extras
from holdfast.interpreter import build

OPS = 100_000
HOLDERS = 50
BY_EVENT = "from holdfast.harness.foreign import read; read.COLUMNS.clear(); "
COMMAND = "from holdfast.__main__ import main; main()"
TABLE = "f,status,process,key,t_inv,t_ret,attempt,token\n"


def lock(ops: int) -> Iterator[dict[str, object]]:
    """Events of a lock that `HOLDERS` processes hold by turns."""
    for n in range(ops // 2):
        about = {"process": n % HOLDERS, "key": "db", "attempt": n}
        for at, f in enumerate(("acquire", "release")):
            time = 1000 * n + 500 * at
            yield about | {"type": "invoke", "f": f, "time": time}
            token = {} if at else {"token": n}
            yield about | {"type": "ok", "f": f, "time": time + 100} | token


def register(ops: int) -> Iterator[dict[str, object]]:
    """Events of a register: every write is read once, by a process that overlaps the next write."""
    for n in range(ops // 2):
        write = {"process": 2 * (n % 4), "f": "write", "value": n}
        read = {"process": 2 * (n % 4) + 1, "f": "read"}
        yield write | {"type": "invoke", "time": 10 * n}
        yield write | {"type": "ok", "time": 10 * n + 1}
        yield read | {"type": "invoke", "time": 10 * n + 2}
        yield read | {"type": "ok", "time": 10 * n + 3, "value": n}


def as_edn(fields: dict[str, object]) -> str:
    """An event as Jepsen prints it."""
    pairs = (
        f":{name} :{value}" if name in ("type", "f") else f":{name} {json.dumps(value)}"
        for name, value in fields.items()
    )
    return f"{{{', '.join(pairs)}}}"


def as_rows(events: Iterable[dict[str, object]]) -> Iterator[str]:
    """A lock's events as rows of a table."""
    invoked: dict[object, object] = {}
    for fields in events:
        if fields["type"] == "invoke":
            invoked[fields["process"]] = fields["time"]
            continue
        values = [fields["f"], "ok", fields["process"], "db", invoked[fields["process"]]]
        values += [fields["time"], fields["attempt"], fields.get("token", -1)]
        yield ",".join(map(str, values)) + "\n"


def written(folder: Path, ops: int) -> dict[str, tuple[Path, str]]:
    """The files, and the model that each is judged by."""
    files = {}
    for name, made, model in (("lock", lock, "fenced"), ("register", register, "register")):
        for form, line in (("jsonl", json.dumps), ("edn", as_edn)):
            path = folder / f"{name}.{form}"
            with path.open("w") as file:
                file.writelines(f"{line(fields)}\n" for fields in made(ops))
            files[f"{name}, {form}"] = path, model
        path = folder / f"{name}.json"
        with path.open("w") as file:
            file.write("[")
            file.writelines(
                f"{',' if at else ''}\n{json.dumps(fields)}" for at, fields in enumerate(made(ops))
            )
            file.write("]\n")
        files[f"{name}, json"] = path, model
    table = folder / "lock.csv"
    with table.open("w") as file:
        file.write(TABLE)
        file.writelines(as_rows(lock(ops)))
    files["lock, csv"] = table, "fenced"
    if extras.problem("pyarrow") is None:
        from pyarrow import csv, parquet

        parquet.write_table(csv.read_csv(table), folder / "lock.parquet")
        files["lock, parquet"] = folder / "lock.parquet", "fenced"
    return files


def cost(path: Path, model: str, before: str) -> tuple[float, int]:
    """CPU seconds and MiB of the command that judges a file."""
    peak = "; from benchmarks.peak import peak_mib; import atexit, sys; " + (
        "atexit.register(lambda: sys.stderr.write(f'peak {peak_mib()}')); "
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", before + peak[2:] + COMMAND]
    ran = subprocess.run(
        [*command, "check", "--model", model, str(path)], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return seconds, int(ran.stderr.rpartition("peak ")[2])


def main() -> None:
    """Print a line per format."""
    ops = int(sys.argv[1]) if len(sys.argv) > 1 else OPS
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, model) in written(Path(folder), ops).items():
            (fast, least), (slow, most) = cost(path, model, ""), cost(path, model, BY_EVENT)
            sys.stdout.write(
                f"{name:<18} {ops} ops: {fast:6.2f} s CPU, {least} MiB; event by event"
                f" {slow:6.2f} s, {most} MiB: {slow / fast:.1f} times\n"
            )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main()
