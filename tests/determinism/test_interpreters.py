"""The same seed gives the same history on every CPython of this machine, without any package."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import holdfast
from holdfast import catalogue
from holdfast.engine import swarm
from holdfast.harness.core.loading import load
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare
from tests import needs

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
CASES = (("reference", 3), ("reference", 46), ("single", 8), ("majority", 5))
ENTRY = catalogue.BACKENDS["sim"].entry
SCRIPT = f"""
import base64, pickle, sys
from holdfast.harness.core.loading import load
for manifest in pickle.loads(base64.b64decode(sys.stdin.read())):
    print(load({ENTRY!r})(manifest).digest)
assert "numpy" not in sys.modules, "a simulated run needs the standard library only"
"""
PROBE = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"


def manifests() -> list[Manifest]:
    plans: list[Plan] = [
        swarm.draw(seed, system, catalogue.SYSTEMS[system].nodes, {}) for system, seed in CASES
    ]
    return [prepare.manifest(prepare.prepared(plan), "same", "") for plan in plans]


@cache
def interpreters() -> dict[str, str]:
    """version -> path, of each CPython that is installed here; of patch releases the last one."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    paths = [str(path) for root in roots for path in sorted(root.glob("*/bin/python3"))]
    paths += [path for version in VERSIONS if (path := shutil.which(f"python{version}"))]
    found = {}
    for path in [*paths, sys.executable]:
        said = subprocess.run([path, "-S", "-c", PROBE], capture_output=True, text=True)
        implementation, _, version = said.stdout.strip().partition(" ")
        if implementation == "cpython":
            found[version] = path
    return {version: found[version] for version in VERSIONS if version in found}


def asked() -> list[str]:
    """All versions there are; where nothing may be skipped, those that are installed."""
    demanded = os.environ.get("HOLDFAST_REQUIRE") == "all"
    return list(interpreters()) if demanded else list(VERSIONS)


@cache
def expected() -> list[str]:
    return [load(ENTRY)(manifest).digest for manifest in manifests()]


@pytest.mark.slow
@pytest.mark.parametrize("version", asked())
def test_a_seed_gives_the_same_history_on_this_python(version: str) -> None:
    python = needs.python(version, interpreters().get(version))
    where = str(Path(holdfast.__file__).parents[1])
    said = subprocess.run(
        [python, "-S", "-c", SCRIPT],
        input=base64.b64encode(pickle.dumps(manifests())).decode(),
        env={"PYTHONPATH": where, "PYTHONHASHSEED": version[-1]},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == expected()
