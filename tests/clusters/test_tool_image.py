"""The container image of the tool itself: built, and run without any privilege.

The base image of the Dockerfile needs a registry, and `pip install` in it an index. Here the node
image stands in for the base, and wheels that pip has fetched outside lie in the context.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.clusters.backends.docker.image import build
from tests import needs

pytestmark = [pytest.mark.docker, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
UNPRIVILEGED = (
    "--user", "12345:12345", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
    "--read-only", "--network", "none", "--tmpfs", "/tmp", "--pids-limit", "64",
)  # fmt: skip


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs.engine()
    context = tmp_path_factory.mktemp("context")
    # `pip` itself too: a Python of Debian has none.
    words = ["pip", "wheel", "--quiet", "--wheel-dir", str(context / "wheels"), str(ROOT), "pip"]
    subprocess.run([sys.executable, "-m", *words], check=True)
    shutil.copy(ROOT / "Dockerfile", context)
    (pip,) = (context / "wheels").glob("pip-*.whl")
    offline = "--no-index --find-links /src/wheels --no-cache-dir --break-system-packages"
    name = f"holdfast-tool-test:{build.tag().rpartition(':')[2]}"
    given = {
        "BASE": build.tag(),
        "PIP": f"python3 /src/wheels/{pip.name}/pip install {offline}",
        "PACKAGE": "holdfast",
    }
    options = [word for key, value in given.items() for word in ("--build-arg", f"{key}={value}")]
    subprocess.run(["docker", "build", "--quiet", "--tag", name, *options, context], check=True)
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], check=True, capture_output=True)


def in_image(
    image: str, *words: str, volume: Path | None = None
) -> subprocess.CompletedProcess[str]:
    shared = () if volume is None else ("--volume", f"{volume}:/work")
    return subprocess.run(
        ["docker", "run", "--rm", *UNPRIVILEGED, *shared, image, *words],
        capture_output=True,
        text=True,
    )


def test_it_runs_judges_and_reports_without_any_privilege(image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    words = ["run", "--backend", "sim", "--system", "majority", "--nemesis", "kill:target=leader"]
    words += ["--time", "4s", "--lease", "1s", "--seed", "7"]
    done = in_image(image, *words, volume=tmp_path)
    assert done.returncode == 1 and "VIOLATED" in done.stdout, done.stdout + done.stderr
    (report,) = tmp_path.glob(".holdfast/runs/2*/report.html")
    assert report.stat().st_uid == 12345
    checked = in_image(image, "check", ".holdfast/runs/latest", volume=tmp_path)
    assert checked.returncode == 1, checked.stderr


def test_a_backend_that_needs_more_is_refused_in_a_sentence(image: str) -> None:
    done = in_image(image, "run", "--backend", "docker", "--time", "2s")
    assert done.returncode in (2, 4) and "Traceback" not in done.stderr, done.stderr
    assert in_image(image).stdout.startswith("Usage: holdfast")
