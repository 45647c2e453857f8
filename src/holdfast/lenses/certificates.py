"""Certificates: the second program accepts or refuses the proofs of a judged run."""

from __future__ import annotations

import gc
from dataclasses import replace

from holdfast.checkers.facts.legal_orders import ORDERS
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.json_value import plain
from holdfast.harness.judging.certificates import Certifier
from holdfast.harness.judging.lens import Lens
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Verified
from holdfast.harness.verification.verify import verify_run


def certifier() -> Certifier:
    """Makes the certificates of one run."""
    return Certifier(ORDERS)


class Certificates(Lens):
    """Runs the second program on the orders of the run."""

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        """With the number of accepted certificates; HoldfastError if the verifier rejects one.

        A verdict that its own rows do not prove is a bug of Holdfast, not a verdict.
        """
        if orders is None:
            return judged
        gc.collect()  # The history's own caches refer to it; the verifier reads the rows once more.
        outcome = verify_run(run.path, plain(judged), orders)
        if outcome.refused:
            raise HoldfastError(
                f"{run.path}: internal error: the verifier rejects {len(outcome.refused)} of"
                f" {len(outcome.refused) + outcome.accepted} certificates: {outcome.refused[0]};"
                " please report it together with this run directory"
            )
        verified = Verified(
            accepted=outcome.accepted,
            bare=outcome.bare,
            why=outcome.why,
            unverifiable=tuple(outcome.unverifiable),
            properties=tuple(outcome.whole),
            unordered=tuple(outcome.unordered),
            opportunities=outcome.opportunities,
        )
        return replace(judged, verified=verified)


CERTIFICATES = Certificates()
