"""Keys of singleton jobs in the protected resource.

Each job of a lock has its own key, whose first accepted write is its effect, and one for the mark
that it is done, if the mark is separate. Standard library only.
"""

from __future__ import annotations

DONE = " done"


def job_key(lock: str, number: int) -> str:
    """Key of the job's effect."""
    return f"{lock}#{number}"


def mark_key(lock: str, number: int) -> str:
    """Key of the job's mark, if the mark is separate from the effect."""
    return job_key(lock, number) + DONE


def job_of(key: str) -> tuple[str, int, bool] | None:
    """The lock, the number, and whether it is the key of a mark; None: not a job's key."""
    lock, hash_, rest = key.rpartition("#")
    number = rest.removesuffix(DONE)
    if not hash_ or not (number.isascii() and number.isdigit()):
        return None
    return lock, int(number), rest != number
