"""Makes certificates: of a finding its rule, its rows and the numbers that prove it; of an exact
property that holds the order that proves it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import chain

import numpy as np

from holdfast.harness.core.case import Case, History
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict
from holdfast.harness.verification.rule import (
    LIMITS,
    ROW_FIELDS,
    assumed,
    count,
    entries,
    facts_of,
    permits,
    stated,
    waits,
)
from holdfast.harness.verification.rules import RULES

Order = tuple[tuple[str, tuple[int, ...]], ...] | None
"""Per lock its rows in order; None if none is known."""


class _Row:
    """A row of the merged history, its columns as attributes."""

    def __init__(self, history: History, index: int) -> None:
        self._strings = history.strings
        self._row = history.rows[index]
        self.writer = history.writers[int(self._row["writer"])]
        self.text = history.strings[int(self._row["key"])]

    def __getattr__(self, name: str) -> int:
        return int(self._row[name])

    def shown(self) -> dict[str, Json]:
        """Its name, and the fields that a certificate repeats; of a notice the reason as text."""
        told: dict[str, Json] = {name: getattr(self, name) for name in ROW_FIELDS}
        if self.f in (Op.LOST, Op.CLOSED):
            told["res"] = self._strings[self.res]
        return {"writer": self.writer, "row": self.row, **told}


def certificate(case: Case, finding: Finding) -> dict[str, Json] | None:
    """The certificate of a finding as a JSON-ready object, None if the checker gave no proof."""
    proof = finding.proof
    if proof is None:
        return None
    roles = {name: _Row(case.history, row) for name, row in proof.roles.items()}
    rule = RULES[proof.rule]
    names: Mapping[str, object] = {
        **LIMITS,
        # A rule may derive its own limit from the same promise.
        "limit": case.promises.notice_ns,
        **roles,
        **proof.values,
        "roles": roles,
        "permits": permits,
        "count": count,
        "waits": waits,
        "entries": entries,
        "slack": 2 * case.error_ns,
        "error": case.error_ns,
    }
    return {
        "rule": proof.rule,
        "rows": {name: row.shown() for name, row in roles.items()},
        "assumes": list(assumed(rule, roles)),
        "facts": facts_of(rule, roles, names),
        **({"states": stated(rule, proof.values)} if rule.states else {}),
    }


def order_certificate(
    case: Case, prop: str, order: Order, orders: bytearray
) -> dict[str, Json] | None:
    """The certificate of a property that holds, None without an order.

    The order itself is added to `orders`, which are stored beside the verdicts.
    """
    if order is None:
        return None
    writers = case.history.writers
    names = sorted(writers, key=lambda name: name + ".seg")
    place = np.array([names.index(name) for name in writers], "<u4")
    rows = case.history.rows
    flat = np.fromiter(chain.from_iterable(mine for _, mine in order), np.int64)
    block = place[rows["writer"][flat]].tobytes() + rows["row"][flat].astype("<u4").tobytes()
    at = len(orders) // 4
    orders += block
    return {
        "rule": f"order/{prop}",
        "writers": names,
        "locks": [[lock, len(mine)] for lock, mine in order],
        "at": at,
        "sha256": hashlib.sha256(block).hexdigest(),
    }


class Certifier:
    """Certifies what the judge finds (`judgement.Certifies`).

    order_of   exact property -> the order that proves that it holds
    orders     the content of the file of orders: those of its certificates
    """

    def __init__(self, order_of: Mapping[str, Callable[[Case], Order]]) -> None:
        self._order_of = order_of
        self.orders = bytearray()

    def of_finding(self, case: Case, finding: Finding) -> dict[str, Json] | None:
        """The certificate of a finding, None if the checker gave no proof."""
        return certificate(case, finding)

    def of_pass(self, case: Case, verdict: PropertyVerdict) -> dict[str, Json] | None:
        """The certificate of an exact property that holds, None for other verdicts."""
        prop = verdict.property
        if verdict.verdict is not Verdict.HOLDS or prop not in self._order_of:
            return None
        try:
            order = self._order_of[prop](case)
        except Exception as error:
            raise HoldfastError(
                f"internal error: no order that proves {prop}: {type(error).__name__}: {error};"
                " please report it"
            ) from error
        return order_certificate(case, prop, order, self.orders)
