"""Every command that README and docs show is executed by a test, or stands here with its reason."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from holdfast.catalogue.findings import FINDINGS, command
from tests import needs
from tests.front import newcomer, test_howto, test_own_lock_tutorial, test_pages, test_tutorial
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
README = "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)

NOT_EXECUTED = {
    "pip install": "installs, as `.ci/bare`, `tests.front.newcomer` and `test_extras` do",
    "holdfast run --system cockroachdb": "needs a CockroachDB of the reader's",
    "holdfast run --backend ssh": "needs machines of the reader's; `test_ssh` has some",
    "holdfast run --system etcd --nemesis": "a minute with etcd; shorter in `test_lock_servers`",
    "holdfast run --system etcd --set lock=rpc": "finding etcd-11456, without its end",
    "holdfast run --system zookeeper": "a minute with ZooKeeper; shorter in `test_lock_servers`",
    "holdfast run --system kubernetes": "30 s with etcd; shorter in `test_kubernetes`",
    "holdfast run --system postgres-lease": "20 s with PostgreSQL; shorter in `test_sql_lease`",
    "holdfast run --system redlock --library": "30 s with Redis; shorter in `test_programs`",
    "holdfast package": "a run with Redis in `test_package`",
    "holdfast replay examples/findings": "minutes with real servers, and a package that is fetched",
    "holdfast hunt PACKAGE": "minutes with real servers; shorter in `test_hunt`",
    "holdfast run --system s3": "30 s with moto; shorter in `test_s3`",
    "holdfast run --system gcs": "30 s with the stand-in; shorter in `test_gcs`",
    "holdfast run --system galera": "40 s with MariaDB; shorter in `test_galera`",
    "holdfast run --system azure-blob": "a minute with azurite; shorter in `test_azure_blob`",
    "holdfast run --system redis-cluster": "40 s with Redis; shorter in `test_redis_cluster`",
    "holdfast run --system flock": "30 s; shorter in `test_flock`",
    "holdfast campaign examples/atlas": "hours; campaigns that stop early in `test_campaign`",
    "holdfast matrix .holdfast/campaigns/atlas": "of those campaigns",
    "holdfast run --system redis --nemesis clock": "20 s with Redis; shorter in `test_runs`",
}
"""Beginning of a command -> why no test executes it as it stands."""


def shown(text: str) -> list[str]:
    """The commands of a document, without prompt and comment."""
    return [
        re.split(r" +# ", line.removeprefix("$ "))[0].strip()
        for _, block in FENCE.findall(text)
        for line in block.splitlines()
        if line.startswith(("$ ", "holdfast "))
    ]


def documents() -> list[Path]:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / README, *(page for page in pages if "reference" not in page.parts)]


def executed() -> set[str]:
    """The commands that tests read from the documents and execute."""
    howtos = [page for page in test_howto.PAGES if page.stem not in test_howto.ELSEWHERE]
    tutorials = [ROOT / test_tutorial.FROZEN, newcomer.PAGE]
    found = {
        line
        for page in (*test_pages.PAGES, *howtos, *tutorials)
        for line in shown(page.read_text())
    }
    found |= {line for part in (0, 1) for line in test_own_lock_tutorial.blocks_of(part)[0]}
    found |= {re.split(r" +# ", line)[0] for line in found}
    for name, row in FINDINGS.items():
        found |= {f"holdfast scenario finding:{name}", command(row)}
    return found | set(OF_README)


README_TEXT = (ROOT / README).read_text()
OF_README = [line for line in shown(README_TEXT) if line.startswith("holdfast ")]


def test_every_command_of_the_documents_is_executed_by_a_test_or_has_a_reason() -> None:
    tested, used = executed(), set[str]()
    missing = []
    for page in documents():
        for line in shown(page.read_text()):
            reason = next((begin for begin in NOT_EXECUTED if begin in line), None)
            if line in tested and (reason is None or line not in OF_README):
                continue
            if reason is None:
                missing.append(f"{page.relative_to(ROOT)}: {line}")
            else:
                used.add(reason)
    assert missing == []
    assert used == set(NOT_EXECUTED), "a reason that no command needs"


UNTRIED = [
    line
    for page in documents()
    for line in shown(page.read_text())
    if "holdfast run" in line and "ssh" not in line
    if any(begin in line for begin in NOT_EXECUTED)
]


@pytest.mark.parametrize("line", UNTRIED)
def test_a_command_that_is_not_executed_is_at_least_a_valid_plan(
    capsys: Capture, line: str
) -> None:
    needs.namespaces()
    said = holdfast(capsys, *shlex.split(line)[1:], "--dry-run")
    assert said.code == 0, said.err


def test_the_commands_of_the_readme_end_as_it_says_in_this_order(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("night.toml").write_text(NIGHT)
    kept = ("--update-baseline",)
    for line in OF_README:
        if any(begin in line for begin in NOT_EXECUTED):
            continue
        words = shlex.split(line)[1:]
        if words[0] == "gate":
            assert holdfast(capsys, *words, *kept).code == 0
        said = holdfast(capsys, *words)
        # Without a seed, a pause may miss what one property needs.
        allowed = (0, 3) if "mylock.py" in line else (3,) if line in UNEXERCISED else (0,)
        assert said.code in allowed, f"{line}\n{said.out}{said.err}"


UNEXERCISED = [
    line for line in OF_README if re.search(rf"{re.escape(line)} +# .*exit code 3", README_TEXT)
]
NIGHT = """
systems = ["reference"]
backend = "sim"
nemeses = ["pause:target=holder,every=3s,for=1500ms"]
time = "9s"
lease = "1s"
seeds = 2
"""
