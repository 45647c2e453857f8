"""The holder stops inside the send of a write that it was entitled to: a hundred times.

Every such write is accepted late by a resource that checks no token, and rejected by one that does.
A pause by a signal is the comparison: it stops the holder anywhere.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import holdfast as hf
from tests import needs

MANY, PER_RUN = 100, 20


def late_writes(run: hf.Run) -> pd.DataFrame:
    """Of every effective fault the first write of its client that reached the resource after it."""
    log, faults = run.resource_log(), run.faults()
    found = []
    for fault in faults[faults.effective].itertuples():
        (client,) = fault.nodes
        after = log[(log.client == client) & (log.t >= fault.to - 0.3)]
        found.append(after.iloc[0] if len(after) else pd.Series({"accepted": pd.NA}))
    return pd.DataFrame(found)


@pytest.mark.power
@pytest.mark.parametrize("resource", ["unfenced", "fenced"])
@pytest.mark.parametrize(
    ("system", "options"),
    [
        ("reference", {}),
        pytest.param("redis", {"tokens": "counter"}, marks=pytest.mark.real_server),
    ],
)
def test_a_write_frozen_in_its_send_is_stale_whenever_it_arrives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    options: dict[str, str],
    resource: str,
) -> None:
    needs.namespaces()
    needs.tracing()
    monkeypatch.chdir(tmp_path)
    parts = []
    for seed in range(1, 100):
        run = hf.run(
            system=system,
            options=options,
            resource=resource,
            nemesis="syscall:target=holder,call=send:resource,every=4s,for=2500ms",
            lease="1s",
            time=f"{4 * PER_RUN}s",
            seed=seed,
        )
        parts.append(late_writes(run))
        if sum(map(len, parts)) >= MANY:
            break
    late = pd.concat(parts)[:MANY]
    assert len(late) == MANY
    assert late.stale.all()
    assert (late.accepted == (resource == "unfenced")).all()
