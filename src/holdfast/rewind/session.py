"""The prompt of `holdfast debug`: one line in, a few lines out."""

from __future__ import annotations

import cmd
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from holdfast.clusters.backends.sim.observed.states import Change, State, States, changes
from holdfast.clusters.backends.sim.observed.steps import Recorded, Step
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.reports.text.formatting import plain
from holdfast.rewind import branch
from holdfast.rewind.causes import ancestors
from holdfast.rewind.execution import Execution
from holdfast.rewind.wording import Words

LISTED = 10
"""Steps that `list` shows."""
MOST_LINES = 400
"""Lines of one state."""
MOST_CHANGES = 24
"""Changes shown with a step; `diff` shows all."""


class Session(cmd.Cmd):
    """Steps through an execution whose states were kept. Errors are lines of its output."""

    def __init__(
        self, done: Execution, at: int, stdin: IO[str], stdout: IO[str], *, prompts: bool
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = prompts
        self.prompt = "(holdfast) " if prompts else ""
        self._runs = [done]
        self._words = [Words(done)]
        self._branch: branch.Branch | None = None
        self.at = at

    @property
    def done(self) -> Execution:
        """The execution that is stepped through: the run, or a branch of it."""
        return self._runs[-1]

    @property
    def words(self) -> Words:
        """Its sentences."""
        return self._words[-1]

    # Moving

    def do_step(self, text: str) -> None:
        """step N: go to a step of the run and show it; without N: show the present one."""
        self._go(lambda: int(text) if text else self.at)

    def do_next(self, text: str) -> None:
        """next [NODE]: the next step, of any node or of this one."""
        self._go(lambda: self._beside(text, 1))

    def do_previous(self, text: str) -> None:
        """previous [NODE]: the step before, of any node or of this one."""
        self._go(lambda: self._beside(text, -1))

    def do_time(self, text: str) -> None:
        """time SECONDS: the first step at or after a time since the start of the run."""
        self._go(lambda: self._first(lambda step: step.t_ns >= self._t_ns(text)))

    def do_row(self, text: str) -> None:
        """row WRITER N: the step that recorded the return of a row, or else its call."""
        self._go(lambda: self._row(text.split()))

    def do_find(self, text: str) -> None:
        """find TEXT: the next step whose message or rows contain a text."""
        self._go(lambda: self._find(text))

    # Looking

    def do_list(self, text: str) -> None:
        """list [NODE]: the steps around the present one, of any node or of this one."""
        self._safely(lambda: self._list(text))

    def do_state(self, text: str) -> None:
        """state [NODE] [PREFIX]: the state of a node after the present step."""
        self._safely(lambda: self._state(text.split()))

    def do_diff(self, text: str) -> None:
        """diff [N]: what the present step changed on its node; or what has changed since N."""
        self._safely(lambda: self._diff(text))

    def do_wrote(self, text: str) -> None:
        """wrote PATH: the step that wrote a value of this node's state last."""
        self._safely(lambda: self._wrote(text))

    def do_causes(self, text: str) -> None:
        """causes: the steps that led to the present one: messages, timers, calls."""
        self._safely(self._causes)

    # What if

    def do_lose(self, text: str) -> None:
        """lose [N]: execute the run again with the message of a step lost; says what differs."""
        self._safely(lambda: self._lose(int(text) if text else self.at))

    def do_enter(self, text: str) -> None:
        """enter: step through the last branch; `leave` returns to the run."""
        self._safely(self._enter)

    def do_leave(self, text: str) -> None:
        """leave: return from a branch to the run."""
        self._safely(self._leave)

    def do_write(self, text: str) -> None:
        """write FILE: write the last branch as data; `debug RUN --branch FILE` repeats it."""
        self._safely(lambda: self._write(text))

    def do_quit(self, text: str) -> bool:
        """quit: end."""
        return True

    do_EOF = do_quit

    def emptyline(self) -> bool:
        """An empty line does nothing."""
        return False

    def default(self, line: str) -> None:
        """An unknown word."""
        self._say(f"unknown command {plain(line.split()[0], 40)!r}; help lists all")

    # How

    def _say(self, line: str) -> None:
        self.stdout.write(f"{line}\n")

    def _safely(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (UsageError, EnvironmentFailed) as error:
            self._say(f"error: {error}")
        except ValueError as error:
            self._say(f"error: expected a number: {plain(error, 120)}")

    def _go(self, where: Callable[[], int]) -> None:
        def act() -> None:
            number = where()
            if not 0 <= number < len(self.done.steps):
                last = len(self.done.steps) - 1
                raise UsageError(f"no step {number}: the run has steps 0 to {last}")
            self.at = number
            self.show()

        self._safely(act)

    def show(self) -> None:
        """The present step: what happened, what it recorded, its cause, what it changed."""
        step = self.done.steps[self.at]
        self._say(f"step {step.number} of {len(self.done.steps)}: {self._line(step)}")
        for text in self.words.rows(step):
            self._say(f"  {text}")
        if step.number == self.done.departed and self.done.departure is not None:
            self._say(f"  departs from its specification: {plain(self.done.departure.rule, 400)}")
        if step.cause >= 0:
            self._say(f"  caused by step {step.cause}: {self._line(self.done.steps[step.cause])}")
        if step.released >= 0:
            self._say(f"  released by step {step.released}")
        self._changes(self._changed(step), MOST_CHANGES)

    def _line(self, step: Step) -> str:
        return f"{self.words.at(step.number)} {self.words.did(step)}"

    def _beside(self, node: str, by: int) -> int:
        number = self.at + by
        if node:
            self._known(node)
            while 0 <= number < len(self.done.steps) and self.done.steps[number].node != node:
                number += by
        return number

    def _first(self, wanted: Callable[[Step], bool], after: int = 0) -> int:
        steps = self.done.steps
        number = next((n for n in range(after, len(steps)) if wanted(steps[n])), -1)
        if number < 0:
            raise UsageError("no such step up to the end of the run")
        return number

    def _t_ns(self, text: str) -> int:
        return self.done.start_ns + int(float(text.removesuffix("s")) * SECOND)

    def _row(self, words: list[str]) -> int:
        if len(words) != 2:
            raise UsageError("row: expected a writer and a number, like: row c1 12")
        for returned in (True, False):
            step = self.done.edges.get(Recorded(words[0], int(words[1]), returned))
            if step is not None:
                return step
        raise UsageError(f"{plain(words[0], 40)} has no row {int(words[1])}")

    def _find(self, text: str) -> int:
        if not text:
            raise UsageError("find: expected a text")
        return self._first(
            lambda step: text in step.text or any(text in row for row in self.words.rows(step)),
            self.at + 1,
        )

    def _list(self, node: str) -> None:
        if node:
            self._known(node)
        steps = self.done.steps
        before = [step for step in steps[: self.at] if not node or step.node == node]
        after = [step for step in steps[self.at :] if not node or step.node == node]
        for step in [*before[-LISTED // 2 :], *after[: LISTED // 2]]:
            mark = ">" if step.number == self.at else " "
            self._say(f"{mark} {step.number:6} {self._line(step)}")

    def _known(self, node: str) -> str:
        nodes = self._kept().nodes()
        if node not in nodes:
            raise UsageError(f"no node {plain(node, 40)!r}: there are {', '.join(nodes)}")
        return node

    def _kept(self) -> States:
        states = self.done.states
        assert states is not None, "a session is made of an execution with states"
        return states

    def _state(self, words: list[str]) -> None:
        node = self._known(words[0]) if words else self.done.steps[self.at].node
        prefix = words[1] if len(words) > 1 else ""
        self._pairs(
            {
                path: value
                for path, value in self._kept().at(node, self.at).items()
                if path.startswith(prefix)
            }
        )

    def _pairs(self, state: State) -> None:
        for path, value in list(state.items())[:MOST_LINES]:
            self._say(f"  {plain(path, 160)} = {plain(value, 200)}")
        if not state:
            self._say("  nothing is known of it here")
        if len(state) > MOST_LINES:
            self._say(f"  … {len(state) - MOST_LINES} more")

    def _changed(self, step: Step) -> tuple[Change, ...]:
        return self._kept().changed(step.node, step.number) if step.node else ()

    def _diff(self, text: str) -> None:
        step = self.done.steps[self.at]
        if not text:
            self._changes(self._changed(step))
            return
        before = self._kept().at(step.node, int(text))
        self._changes(changes(before, self._kept().at(step.node, self.at)))

    def _wrote(self, path: str) -> None:
        node = self.done.steps[self.at].node
        written = self._kept().wrote(node, path, self.at)
        if written is None:
            raise UsageError(f"wrote: no step has written {plain(path, 160)!r} on {node} so far")
        number, change = written
        self._say(f"step {number}: {self._line(self.done.steps[number])}")
        self._changes([change])

    def _changes(self, found: Sequence[Change], most: int = MOST_LINES) -> None:
        for path, before, after in found[:most]:
            old, new = plain(before or "-", 200), plain(after or "-", 200)
            self._say(f"  {plain(path, 160)}: {old} -> {new}")
        if len(found) > most:
            self._say(f"  … {len(found) - most} more changes: diff")

    def _causes(self) -> None:
        for number, text in self.words.sentences(ancestors(self.done.steps, self.at), {}):
            self._say(f"  [{number}] {text}")

    def _lose(self, number: int) -> None:
        made = self._branch = branch.branch(self.done, [number])
        for line in branch_lines(made):
            self._say(line)

    def _enter(self) -> None:
        if self._branch is None:
            raise UsageError("no branch yet: lose N makes one")
        made = branch.branch(self._runs[0], list(self._branch.lost), states=True)
        self._runs = [self._runs[0], made.done]
        self._words = [self._words[0], Words(made.done)]
        self.at = min(self.at, len(made.done.steps) - 1)
        self.show()

    def _leave(self) -> None:
        if len(self._runs) == 1:
            raise UsageError("not in a branch")
        self._runs.pop()
        self._words.pop()
        self.at = min(self.at, len(self.done.steps) - 1)
        self.show()

    def _write(self, name: str) -> None:
        if self._branch is None:
            raise UsageError("no branch yet: lose N makes one")
        if not name:
            raise UsageError("write: expected a file")
        branch.write(self._branch, Path(name))
        self._say(f"written: {plain(name, 200)}")


def branch_lines(made: branch.Branch) -> list[str]:
    """What a branch is, in sentences."""
    lost = ", ".join(map(str, made.lost))
    return [
        f"branch: the message of step {lost} is lost",
        f"  history: {plain(made.differs, 400) or 'the same'}",
        f"  findings of the run: {', '.join(made.before) or 'none'}",
        f"  findings of the branch: {', '.join(made.after) or 'none'}",
    ]
