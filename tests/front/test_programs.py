"""Packages of other languages under test, on real servers, in whole runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.clusters.programs import debian
from holdfast.clusters.programs.rows import PROGRAMS
from tests import needs
from tests.front.test_findings import SERVERS
from tests.front.test_runs import nothing_promised_is_violated, run

QUICK = [("redlock", "npm:redlock"), ("etcd", "npm:etcd3")]
GO_MUTEX = ("etcd", "deb:golang-etcd-server-dev")
SLOW = [name for name in PROGRAMS if name not in (*QUICK, GO_MUTEX)]


def installable(system: str, package: str) -> None:
    """The interpreter of a package and the servers that it uses."""
    needs.namespaces()
    needs.binary(SERVERS[system])
    if package.startswith(debian.PREFIX):
        needs.unless(debian.of(PROGRAMS[system, package].program).missing())
    else:
        needs.binary("node")
        needs.binary("npm")


def held(tmp_path: Path, system: str, package: str, *words: str) -> None:
    """A run in which exclusion was exercised and nothing promised is violated."""
    installable(system, package)
    asked = ("--system", system, "--library", package, "--lease", "2s", "--clients", "3", *words)
    ran = run(tmp_path, *asked, codes=(0, 3))
    nothing_promised_is_violated(ran)
    assert ran.verdict("mutual-exclusion") == "HOLDS", ran.row("mutual-exclusion")
    pins = (ran.run_dir / "manifest.json").read_text()
    assert re.search(rf'"{re.escape(package)}@\d[^"]*"', pins)


@pytest.mark.real_server
@pytest.mark.parametrize(("system", "package"), QUICK)
def test_a_package_of_another_language_holds_without_faults(
    tmp_path: Path, system: str, package: str
) -> None:
    held(tmp_path, system, package, "--time", "5s")


@pytest.mark.real_server
def test_curator_gives_notice_before_its_session_ends_beyond_a_partition(tmp_path: Path) -> None:
    cut = ("--workload", "renewal", "--nemesis", "partition:target=holder,every=6s,for=4s")
    held(tmp_path, "zookeeper", "deb:libcurator-recipes-java", *cut, "--time", "14s")


@pytest.mark.real_server
def test_the_mutex_of_etcd_for_go_holds_and_its_create_revision_is_a_token(tmp_path: Path) -> None:
    sends = ("--set", "tokens=revision", "--set", "sender=program", "--resource", "fenced")
    resets = ("--workload", "renewal", "--nemesis", "reset:every=2s")
    # Holds of one lease, so that there are grants amid resets: a dozen, of which a busy machine may
    # take half.
    held(tmp_path, *GO_MUTEX, *sends, *resets, "--set", "hold_leases=1", "--time", "20s")


@pytest.mark.power
@pytest.mark.real_server
@pytest.mark.parametrize(("system", "package"), SLOW)
def test_every_other_package_holds_without_faults(
    tmp_path: Path, system: str, package: str
) -> None:
    held(tmp_path, system, package, "--time", "8s")
