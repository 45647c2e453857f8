"""`python -m holdfast` is the same program as `holdfast`."""

import sys

if not sys.flags.safe_path:
    # `-m` puts the current folder first on the path; a json.py there is none of our business.
    del sys.path[0]

from holdfast.commands import main

if __name__ == "__main__":
    main()
