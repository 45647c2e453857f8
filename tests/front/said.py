"""The command line as a test uses it: called in this process, its words and its exit code kept."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from holdfast.commands import main


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


def holdfast(capsys: pytest.CaptureFixture[str], *words: object) -> Said:
    """Run `holdfast` with these words."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    told = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return Said(code=code, out=told.out, err=told.err)
