"""With nothing installed but the base, everything else runs, and what needs an extra says which."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.harness.core.extras import EXTRAS
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
HOSTS = '[[host]]\nname = "a"\naddress = "192.0.2.1"\npython = "python3"\n'


@pytest.fixture(autouse=True)
def base_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No optional package can be imported, and no engine is named but one that is not there."""
    monkeypatch.chdir(tmp_path)
    for name in list(sys.modules):
        if name.split(".")[0] in EXTRAS:
            monkeypatch.delitem(sys.modules, name)
    for package in EXTRAS:
        monkeypatch.setitem(sys.modules, package, None)


def test_a_run_in_the_simulator_needs_no_extra(capsys: Capture) -> None:
    said = holdfast(capsys, "run", "--backend", "sim", "--time", "2s", "--seed", "7")
    assert said.code in (0, 3), said.err
    assert Path(".holdfast/runs/latest/report.html").is_file()
    csv = holdfast(capsys, "export", ".holdfast/runs/latest", "--format", "csv")
    assert csv.code == 0, csv.err


@pytest.mark.parametrize(
    ("words", "extra", "code"),
    [
        (("run", "--backend", "docker", "--time", "2s"), "docker", 4),
        (("run", "--backend", "ssh", "--hosts", "hosts.toml", "--time", "2s"), "ssh", 4),
        (("export", "latest", "--format", "parquet", "--out", "x.parquet"), "parquet", 2),
        (("campaign", "night.toml", "--scheduler", "127.0.0.1:1"), "cluster", 2),
        (("check", "x.parquet", "--model", "mutex"), "parquet", 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_an_extra_names_it_in_one_sentence(
    capsys: Capture, words: tuple[str, ...], extra: str, code: int
) -> None:
    Path("hosts.toml").write_text(HOSTS)
    Path("x.parquet").write_bytes(b"PAR1 and more")
    Path("night.toml").write_text('systems = ["single"]\nbackend = "sim"\nseeds = 1\n')
    if "latest" in words:
        run = ("run", "--backend", "sim", "--time", "1s", "--seed", "7", "--out", "runs")
        assert holdfast(capsys, *run).code in (0, 3)
        words = tuple("runs/latest" if word == "latest" else word for word in words)
    said = holdfast(capsys, *words)
    told = [line for line in said.err.splitlines() if f"pip install 'holdfast[{extra}]'" in line]
    assert (said.code, len(told)) == (code, 1), said.out + said.err
    assert "Traceback" not in said.err
