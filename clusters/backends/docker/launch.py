"""Executes a command inside a container with its own log, folder and environment only.

`python3 -I -S -c <this source> LOG NAME=VALUE... -- ARGV...`; standard library only, because it is
passed as text and runs with the node's own interpreter.
"""

import os
import sys
from signal import (
    SIG_DFL,
    SIG_SETMASK,
    SIGHUP,
    SIGINT,
    SIGPIPE,
    SIGQUIT,
    SIGTERM,
    pthread_sigmask,
    signal,
)

NOT_RUN = 127


def main(argv: list[str]) -> None:
    """Replaces this process by the command; exits with NOT_RUN, and the reason in the log."""
    log, *rest = argv
    split = rest.index("--")
    environ = {"PATH": os.environ.get("PATH", os.defpath)}
    environ |= dict(pair.split("=", 1) for pair in rest[:split])
    command = rest[split + 1 :]
    os.chdir(os.path.dirname(log))
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    source = os.open(os.devnull, os.O_RDONLY)
    for standard, taken in ((0, source), (1, sink), (2, sink)):
        os.dup2(taken, standard)
    # As processes start that are no containers; this Python ignores SIGPIPE for one.
    for number in (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE):
        signal(number, SIG_DFL)
    pthread_sigmask(SIG_SETMASK, ())
    try:
        os.execvpe(command[0], command, environ)
    except OSError as refused:
        sys.stderr.write(f"{command[0]}: {refused.strerror}\n")
        sys.stderr.flush()
        os._exit(NOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
