"""Registers of growing length, judged beside another checker: python -m benchmarks.registers

Correct histories of five clients in porcupine's notation, of 1,000 operations up to --most, none
and a fifth of them without an answer: of distinct writes, which zones decide, and of comparisons
over five values, which only a search decides. Each is judged by a process of its own: CPU seconds
and MiB of the whole command. --beside runs another checker on the same file, for at most --limit
seconds:

    python -m benchmarks.registers --most 1000000 --beside ./porcupine-of-a-file {file} {limit}
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.interpreter import build

CLIENTS = 5
VALUES = 5
SIZES = (1_000, 10_000, 100_000, 1_000_000)
UNKNOWN = (0.0, 0.2)
COMMAND = "from holdfast.__main__ import main; main()"
SEED = 7
"""The histories are drawn; every checker gets the same ones."""

Request = tuple[str, tuple[int, ...]]


class Register:
    """A register, and requests that take effect at one point between call and answer."""

    def __init__(self, draw: random.Random, *, distinct: bool) -> None:
        self.draw, self.distinct = draw, distinct
        self.value: int | None = None
        self.written = 0

    def request(self) -> Request:
        """The next operation of a client."""
        self.written += 1
        if self.distinct:
            return self.draw.choice([("read", ()), ("write", (self.written,))])
        one, two = self.draw.randrange(VALUES), self.draw.randrange(VALUES)
        return self.draw.choice([("read", ()), ("write", (one,)), ("cas", (one, two))])

    def apply(self, request: Request) -> str:
        """Carries it out; its answer in porcupine's words."""
        op, args = request
        if op == "read":
            return f":ok\t:read\t{'nil' if self.value is None else self.value}"
        if op == "cas" and self.value != args[0]:
            return f":fail\t{words(request)}"
        self.value = args[-1]
        return f":ok\t{words(request)}"


def words(request: Request) -> str:
    """An operation as porcupine's logs write it: ("cas", (1, 2)) -> ":cas\\t[1 2]"."""
    op, args = request
    value = f"[{args[0]} {args[1]}]" if op == "cas" else str(*args) or "nil"
    return f":{op}\t{value}"


def history(ops: int, unknown: float, *, distinct: bool, seed: int = SEED) -> Iterator[str]:
    """Lines of a correct history: each client calls, takes effect, is answered or never hears."""
    draw = random.Random(f"{seed} {ops} {unknown} {distinct}")
    register = Register(draw, distinct=distinct)
    names, used = list(range(CLIENTS)), CLIENTS
    pending: dict[int, tuple[Request, str]] = {}
    begun = 0
    while begun < ops or pending:
        place = draw.randrange(CLIENTS)
        request, answer = pending.get(place, (None, ""))
        if request is None:
            if begun < ops:
                begun += 1
                pending[place] = register.request(), ""
                yield f"INFO  jepsen.util - {names[place]}\t:invoke\t{words(pending[place][0])}\n"
        elif not answer:
            lost = draw.random() < unknown
            if not lost or draw.random() < 0.5:
                answer = register.apply(request)
            answer = f":info\t:{request[0]}\t:timed-out" if lost else answer
            pending[place] = request, answer
        else:
            del pending[place]
            yield f"INFO  jepsen.util - {names[place]}\t{answer}\n"
            if answer.startswith(":info"):
                names[place], used = used, used + 1


def cost(command: Sequence[str]) -> tuple[float, int, str]:
    """CPU seconds and MiB of a command, and the last word of its first line."""
    script = (
        "import resource, subprocess, sys;"
        "ran = subprocess.run(sys.argv[1:], capture_output=True, text=True);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "answer = (ran.stdout.split() or ['?'])[0];"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, answer)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=True
    )
    seconds, peak, answer = ran.stdout.split()
    return float(seconds), int(peak), answer


def main() -> None:
    """Print a line per history."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--most", type=int, default=100_000)
    asked.add_argument("--limit", type=int, default=60)
    asked.add_argument("--beside", nargs=argparse.REMAINDER, default=[])
    options = asked.parse_args()
    # What it may use of memory, so that a search beside us that clones its state ends by itself.
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.log"
        for distinct in (True, False):
            model = "register" if distinct else "cas-register"
            for ops in (size for size in SIZES if size <= options.most):
                for unknown in UNKNOWN:
                    with path.open("w") as file:
                        file.writelines(history(ops, unknown, distinct=distinct))
                    ours = cost(
                        [sys.executable, "-c", COMMAND, "check", "--model", model, str(path)]
                    )
                    places = {"file": str(path), "limit": str(options.limit)}
                    theirs = [one.format(**places) for one in options.beside]
                    lines = [f"{seconds:7.2f} s {peak:5} MiB {answer}" for seconds, peak, answer in
                             [ours, *([cost(theirs)] if theirs else [])]]  # fmt: skip
                    sys.stdout.write(
                        f"{model:<13}{ops:>8} ops, {unknown:3.0%} unknown: {'; '.join(lines)}\n"
                    )
                    sys.stdout.flush()


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main()
