"""`holdfast` and `python -m holdfast`: loads the command line, and has a word for ^C meanwhile."""

import signal
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `-m` puts the current folder first on the path; a json.py there is none of our business.
    del sys.path[0]

from holdfast.interrupts import loaded, never_lost


def main() -> object:
    """The program. Ends the process with the exit code of the command."""
    never_lost()
    try:
        commands = loaded("holdfast.commands")
    except KeyboardInterrupt:
        sys.stderr.write("holdfast: interrupted; the same command starts again\n")
        sys.exit(130)
    try:
        return commands.main()
    finally:
        # All is said: a ^C from here on must neither add a word nor change the exit code.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
