"""Shows how far long work is: a line redrawn on a terminal, one every ten seconds elsewhere.

All commands that take long use it: run, campaign, sim, shrink, sweep, hunt, check, debug. From
Python, `listening` has every state given to a function.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import click

BAR = 20
REDRAWN_S = 0.1
"""Least time between two drawings on a terminal."""
TICK_S = 1.0
"""How often the time is shown to pass while nothing else happens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """How far some work is.

    action      what is done: "simulate", the name of a campaign
    done, total number of units, total None if that is unknown; unit: "runs", "seeds", "s", "rows"
    violations  found so far, None where they are not counted
    elapsed_s   since it began; left_s: estimate of the rest, None if unknown
    note        what else there is to know
    """

    action: str
    done: float
    unit: str
    elapsed_s: float
    total: float | None = None
    violations: int | None = None
    left_s: float | None = None
    note: str = ""

    @property
    def share(self) -> float | None:
        """The part that is done, None if unknown."""
        return min(1.0, self.done / self.total) if self.total else None


Listener: TypeAlias = Callable[[State], object]
_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Calls a function with each state of all work inside. What it raises ends the work."""
    token = _LISTENERS.set((*_LISTENERS.get(), listener))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def on_terminal() -> bool:
    """Whether a line can be redrawn."""
    quiet = os.environ.get("CI") or os.environ.get("NO_COLOR")
    return sys.stderr.isatty() and not quiet


class Progress:
    """Progress of one action, on standard error; a context manager.

    budget_s   wall time after which the work ends, which bounds the time left
    """

    EVERY_S = 10.0

    def __init__(
        self,
        action: str,
        unit: str,
        total: float | None = None,
        *,
        violations: int | None = None,
        budget_s: float | None = None,
    ) -> None:
        self._action, self._unit, self._total, self._budget_s = action, unit, total, budget_s
        self._done, self._violations, self._note = 0.0, violations, ""
        self._begun_s = self._told_s = time.monotonic()
        self._first: float | None = None
        self._live, self._drawn_s, self._shown = on_terminal(), 0.0, False
        self._lock, self._over = threading.RLock(), threading.Event()
        threading.Thread(target=self._tick, daemon=True).start()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def update(
        self,
        done: float | None = None,
        *,
        action: str | None = None,
        total: float | None = None,
        violations: int | None = None,
        note: str | None = None,
    ) -> None:
        """Set what is given; shown at once on a terminal, else if ten seconds have passed."""
        with self._lock:
            self._done = self._done if done is None else done
            self._first = self._done if self._first is None else self._first
            self._action = self._action if action is None else action
            self._total = self._total if total is None else total
            self._violations = self._violations if violations is None else violations
            self._note = self._note if note is None else note
            state = self.state()
            self._show()
        for listener in _LISTENERS.get():
            listener(state)

    def state(self) -> State:
        """How far it is now."""
        elapsed_s = time.monotonic() - self._begun_s
        done = self._done - (self._first or 0.0)
        left_s = None
        if self._total is not None and done > 0:
            left_s = elapsed_s * max(0.0, self._total - self._done) / done
        if self._budget_s is not None:
            rest_s = max(0.0, self._budget_s - elapsed_s)
            left_s = rest_s if left_s is None else min(rest_s, left_s)
        return State(
            action=self._action,
            done=self._done,
            unit=self._unit,
            elapsed_s=elapsed_s,
            total=self._total,
            violations=self._violations,
            left_s=left_s,
            note=self._note,
        )

    def say(self, line: str) -> None:
        """A line that stays."""
        with self._lock:
            self._clear()
            click.echo(line, err=True)

    def hide(self) -> None:
        """Remove the line of a terminal before something else is printed."""
        with self._lock:
            self._clear()

    def close(self) -> None:
        """Remove the line of a terminal."""
        self._over.set()
        with self._lock:
            self._clear()

    def _tick(self) -> None:
        while not self._over.wait(TICK_S):
            with self._lock:
                if not self._over.is_set():
                    self._show()

    def _show(self) -> None:
        now_s = time.monotonic()
        if self._live:
            if now_s - self._drawn_s >= REDRAWN_S:
                self._drawn_s, self._shown = now_s, True
                width = shutil.get_terminal_size().columns - 1
                line = drawn(self.state())[:width]
                # Carriage return, the line, then the rest of its predecessor is erased.
                sys.stderr.write(f"\r{line}\x1b[K")
                sys.stderr.flush()
        elif now_s - self._told_s >= self.EVERY_S:
            self._told_s = now_s
            click.echo(f"  {told(self.state())}", err=True)

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


def told(state: State) -> str:
    """A state as one line of text."""
    share = "" if state.share is None else f" {state.share:4.0%}"
    return f"{state.action}{share}  {', '.join(_parts(state))}"


def drawn(state: State) -> str:
    """The same with a bar."""
    share = state.share
    bar = "" if share is None else f"  [{'#' * int(share * BAR):<{BAR}}]"
    return f"{state.action}{bar}  {', '.join(_parts(state))}"


def _parts(state: State) -> list[str]:
    of = "" if state.total is None else f" of {_number(state.total, whole=True)}"
    parts = [f"{_number(state.done)}{of} {state.unit}"]
    parts += [state.note] if state.note else []
    parts += [] if state.violations is None else [f"{state.violations:,} violated"]
    if state.done and state.elapsed_s > 1 and state.unit != "s":
        parts.append(f"{state.done / state.elapsed_s:,.3g} {state.unit} per s")
    parts += [f"{clock(state.elapsed_s)} so far"] if state.left_s is None else []
    parts += [] if state.left_s is None else [f"{clock(state.left_s)} left"]
    return parts


def _number(value: float, *, whole: bool = False) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if whole else f"{value:.1f}"


def clock(seconds: float) -> str:
    """A duration as minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
