"""The files of tests that ask what the machine has: those from which imports lead to `needs.py`.

`python -m tests.tools` prints them, for `make test-tools`: where `make test` ran on machines that
lack tools, as the bare roots of CI, only these have tests that did not run there. conftest.py holds
that to be true: a skip in another file is a failure.
"""

from __future__ import annotations

import functools
import sys

from tests.quick import ROOT, distances, files

NEEDS = "tests.needs"


@functools.cache
def asking() -> frozenset[str]:
    """Paths relative to the top folder."""
    reached = (files()[module] for module in distances([NEEDS]))
    return frozenset(
        str(path.relative_to(ROOT)) for path in reached if path.name.startswith("test_")
    )


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in sorted(asking()))
