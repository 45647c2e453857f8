"""The peak memory of this process."""

from __future__ import annotations

import re
from pathlib import Path


def peak_mib() -> int:
    """MiB of memory at most since this program began; Linux.

    Not `ru_maxrss`, which a new program takes over from the process that started it.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10
