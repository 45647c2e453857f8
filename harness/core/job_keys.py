"""Jobs that are to be done once, in turn: what they are called in the protected resource.

Each job of a lock has a key of its own there, whose first accepted write is its effect, and one for
the mark that says it is done, for those who keep the two apart. Standard library only.
"""

from __future__ import annotations

DONE = " done"


def job_key(lock: str, number: int) -> str:
    """Where the effect of the job is written."""
    return f"{lock}#{number}"


def mark_key(lock: str, number: int) -> str:
    """Where it is noted that the job is done, if that is not its effect itself."""
    return job_key(lock, number) + DONE


def job_of(key: str) -> tuple[str, int, bool] | None:
    """The lock, the number, and whether the key is that of the mark; None: it is no job's."""
    lock, hash_, rest = key.rpartition("#")
    number = rest.removesuffix(DONE)
    if not hash_ or not (number.isascii() and number.isdigit()):
        return None
    return lock, int(number), rest != number
