"""A browser for tests, or the reason why there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def executable() -> str:
    """Path of Chromium; skips where there is none, fails where everything is required."""
    found = shutil.which("chromium")
    if found:
        return found
    reason = "chromium is not installed"
    if os.environ.get("HOLDFAST_REQUIRE") == "all":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium with a fresh profile, closed on every way out."""
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=30_000)
        try:
            yield browser
        finally:
            browser.close()
