"""What a packed segment takes on the disk, and what packing and unpacking a row costs.

Run: `python -m benchmarks.packing [RUN ...]`, on the histories of runs; without one, on rows that
this process records. Reading by column is measured from files in blocks of half a segment, packed
and as recorded; `zlib` is what a general compressor on top would save and cost.
"""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.recording import recorded

from holdfast.harness.history import packed_columns, reader, segment_packer
from holdfast.harness.recording.packed_format import unpacked
from holdfast.harness.recording.segments import SEGMENT_ROWS, write_closed
from holdfast.interpreter import build

ROUNDS = 7
LEAST_ROWS = 1000
BLOCK_ROWS = SEGMENT_ROWS // 2
Rows = npt.NDArray[np.void]


def quickest(work: Callable[[], object], rows: int) -> float:
    """CPU nanoseconds a row, in the quickest of some rounds."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - begun)
    return min(found) / rows


def read_by_column(path: Path, rows: int) -> None:
    """Reads a segment as a history that is judged in parts is read, up to the checks of damage."""
    for at in range(0, rows, BLOCK_ROWS):
        block = reader.block_at(path, at, BLOCK_ROWS)
        for name in reader.ROW_DTYPE.names or ():
            np.ascontiguousarray(block[name])


def measure(segments: Sequence[Rows], folder: Path) -> None:
    """Print all numbers of some segments."""
    count = sum(map(len, segments))
    bodies = [packed_columns.pack(rows) for rows in segments]
    size = sum(map(len, bodies))
    squeezed = [zlib.compress(body, 1) for body in bodies]
    small_size = sum(map(len, squeezed))
    write_closed(folder, {"writer": "w"}, [""], np.concatenate(segments)[:SEGMENT_ROWS].tobytes())
    raw = folder / "w.seg"
    small = folder / "p.seg"
    small.write_bytes(segment_packer.packed(raw.read_bytes()))
    rows = reader.at_most(reader.read_header(raw))
    say = sys.stdout.write
    say(f"{count} rows in {len(segments)} segments\n")
    say(f"packed:  {size / count:6.1f} bytes a row; with zlib {small_size / count:.1f}\n")
    pack_ns = quickest(lambda: [packed_columns.pack(one) for one in segments], count)
    say(f"pack:    {pack_ns:6.0f} ns\n")
    say(f"read:    {quickest(lambda: read_by_column(small, rows), rows):6.1f} ns, packed\n")
    say(f"         {quickest(lambda: read_by_column(raw, rows), rows):6.1f} ns, as recorded\n")
    say(f"zlib:    {quickest(lambda: list(map(zlib.decompress, squeezed)), count):6.1f} ns\n")
    data = small.read_bytes()
    say(f"without numpy: {quickest(lambda: unpacked(data), rows):.0f} ns\n")


def main(runs: Sequence[str]) -> None:
    """Measures each run."""
    for name in runs or [""]:
        with tempfile.TemporaryDirectory() as folder:
            history = Path(name) / "history"
            if not name:
                history = Path(folder) / "history"
                history.mkdir()
                recorded(SEGMENT_ROWS - 1, history, "w")
            headers = map(reader.read_header, reader.segment_files(history))
            found = [
                reader.rows_at(header.path, 0, reader.at_most(header))
                for header in headers
                if reader.at_most(header) >= LEAST_ROWS
            ]
            measure(found, Path(folder))


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main(sys.argv[1:])
