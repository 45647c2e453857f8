"""Generic situations of a lock client, from situations.toml, and the plans that they become."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.harness.core.durations import duration_ns
from holdfast.harness.plans.plan import Plan, parse_nemesis

CHOICE = re.compile(r"\{([^{}]*)\}")
COROUTINES, PYTHON, TRY = "coroutines", "python", "try"
NEEDS = (COROUTINES, PYTHON, TRY)
"""What a situation may need of the library's interface: calls that can be cancelled; that it runs
in the client's own process; that a rejected request leaves nothing behind."""


class Situation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the callers of a lock do, and what goes wrong meanwhile.

    Texts may have choices, {a|b}, sampled from the seed of the run.

    workload  its name; options: those of the workload
    nemesis   faults as for `--nemesis`, "" for none
    needs     of NEEDS: the library's interface it makes sense for
    first_for what ends a hold (`bound` of a row): tried first with such a library
    prefers   option of the library -> the value with which the situation shows most: tried first
    """

    says: str
    workload: str
    nemesis: str = ""
    options: dict[str, str] = {}
    clients: str = "4"
    locks: str = "1"
    lease: str = "2s"
    time: str
    needs: tuple[str, ...] = ()
    first_for: tuple[str, ...] = ()
    prefers: dict[str, str] = {}

    def plan(self, rng: random.Random, system: str, options: Mapping[str, str]) -> Plan:
        """An incomplete plan on real servers; `options` are those of the library, which win."""
        own = {name: chosen(rng, text) for name, text in self.options.items()}
        faults = chosen(rng, self.nemesis)
        return Plan(
            system=system,
            workload=chosen(rng, self.workload),
            nemeses=tuple(parse_nemesis(faults)) if faults else (),
            options={**own, **options},
            clients=int(chosen(rng, self.clients)),
            locks=int(chosen(rng, self.locks)),
            lease_ns=duration_ns(chosen(rng, self.lease)),
            time_ns=duration_ns(self.time),
            nodes=0,
            seed=rng.randrange(1 << 31),
        )


def chosen(rng: random.Random, text: str) -> str:
    """The text with one value of each choice: "{1s|2s}" -> "2s"."""
    return CHOICE.sub(lambda found: rng.choice(found[1].split("|")), text)


SITUATIONS = msgspec.toml.decode(
    Path(__file__).with_name("situations.toml").read_bytes(), type=dict[str, Situation]
)
"""Name -> situation, in the order in which they are tried."""
