"""What the report of a big run costs: CPU to build it, bytes per op, ready and frame times.

Run: `python -m benchmarks.report [--ops N ...]`. Each run directory is drawn by
`run_directory.py` and judged; building counts the CPU of `holdfast report` in a process of its own,
imports included. The page is opened in headless Chromium from its file; ready is from the start of
the navigation to the finished timeline, a frame is one whole redraw while zooming in and out.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.run_directory import Shape, write
from playwright.sync_api import sync_playwright
from tests import needs
from tests.reports.browser import FLAGS

from holdfast.engine.judging import judge_run
from holdfast.harness.runs.directory import RunDir
from holdfast.interpreter import build

ZOOM = """() => new Promise((done) => {
  const from = timeline.frames.length;
  timeline.frames.length = 0;
  let n = 0;
  const step = () => {
    timeline.view.zoom(n++ % 40 < 20 ? 0.7 : 1 / 0.7, timeline.data.about.end * 0.4);
    timeline.changed(false);
    if (n < 120) requestAnimationFrame(step); else done(timeline.frames.slice());
  };
  requestAnimationFrame(step);
})"""


def built(path: Path) -> float:
    """CPU seconds to build the report of a judged run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-m", "holdfast", "report", str(path)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def opened(path: Path) -> dict[str, Any]:
    """Milliseconds until the timeline was ready, and of each frame of a zoom; best of three."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.chromium(), args=FLAGS)
        found = []
        for _ in range(3):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-timeline]", state="attached", timeout=60_000)
            ready = page.evaluate("[timeline.ready, timeline.loading]")
            found.append((*ready, page.evaluate(ZOOM)))
            page.close()
        browser.close()
    ready, loading, frames = min(found, key=lambda one: one[0])
    return {"ready": ready, "loading": loading, "frames": sorted(frames)}


def main() -> None:
    """Print what each size costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, nargs="+", default=[500_000, 1_000_000])
    parser.add_argument("--writes", type=int, default=0)
    args = parser.parse_args()
    for ops in args.ops:
        with tempfile.TemporaryDirectory() as folder:
            run = write(Shape(ops=ops, writes=args.writes, violation=True), Path(folder))
            judge_run(RunDir(run.path))
            cpu = built(run.path)
            report = run.path / "report.html"
            size, shown = report.stat().st_size, opened(report)
        frames = shown["frames"]
        sys.stdout.write(
            f"{ops:>9} ops: built in {cpu:.2f} s CPU, {size / 1e6:.1f} MB,"
            f" {size / ops:.2f} bytes an op; ready after {shown['ready']:.0f} ms"
            f" ({shown['loading']:.0f} in the script); zoom frame p50"
            f" {statistics.median(frames):.1f} ms, p99 {frames[int(len(frames) * 0.99)]:.1f} ms\n"
        )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main()
