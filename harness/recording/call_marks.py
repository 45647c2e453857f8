"""Marks by which who traces a client's system calls knows the call that they belong to.

A mark is a system call that changes nothing: the question whether a file exists, whose path says
which call begins, or that it has ended. Standard library only.
"""

from __future__ import annotations

from holdfast.harness.core.operations import Op

MARKED = {
    Op.ACQUIRE: "acquire",
    Op.TRY: "acquire",
    Op.RENEW: "renew",
    Op.RELEASE: "release",
    Op.READ: "read",
    Op.WRITE: "write",
    Op.HEARTBEAT: "heartbeat",
}
"""Call -> its word; an acquire that does not wait is one too."""
WORDS = tuple(dict.fromkeys(MARKED.values()))
FOLDER = "/holdfast-call/"
"""Begins the paths of all marks; it does not exist."""
END = f"{FOLDER}end"


def called(path: str) -> str | None:
    """The call that a mark says begins, "" for an end; None if the path is no mark."""
    if path == END:
        return ""
    return path.removeprefix(FOLDER) if path.startswith(FOLDER) else None
