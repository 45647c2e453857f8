"""Every error that Holdfast shows to a person, with the exit code it ends in.

HoldfastError
  UsageError          2   a name, option, plan or file that the user can mend
  EnvironmentFailed   4   this machine, engine or server would not do its part
    NoAnswer          4   a request was sent and its effect is unknown
    AgentLost         4   the fault agent exited while the run needed it
"""

from __future__ import annotations

from collections.abc import Iterable

SEVERITY = {0: 0, 3: 1, 4: 2, 1: 3}
"""Exit code -> how much it outweighs others: 1 before 4 before 3 before 0."""


def worst_exit_code(codes: Iterable[int], default: int = 0) -> int:
    """The exit code that counts for several runs; `default` for none."""
    return max(codes, key=SEVERITY.__getitem__, default=default)


class HoldfastError(Exception):
    """Carries one message for a person: where, what, and what to do about it."""

    exit_code = 4


class UsageError(HoldfastError):
    """The user asked for something that does not exist or does not fit together.

    `problems` holds one line per mistake; all of them are shown at once.
    """

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class EnvironmentFailed(HoldfastError):
    """The world did not do what it was asked: no engine, no port, a server that died."""

    exit_code = 4


class NoAnswer(EnvironmentFailed):
    """A request was sent and not answered in time: it may have taken effect, or may do so later."""


class AgentLost(EnvironmentFailed):
    """The fault agent exited or does not answer any more: no fault can be injected or healed."""
