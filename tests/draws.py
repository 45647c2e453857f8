"""How many inputs a test draws at random: all of them under HOLDFAST_DRAWS=all (make power).

`make test`, and pytest by itself, take a tenth, `make test-long` a third. Seeds are fixed: a share
draws the same inputs in each run, mostly the first of all. A test takes the fixture `draws` and
asks it how many; by that its marker is `draws`, and `make test-long` and `make power` run it too.
What it expects to see among them is a share of the draws, or `draws` of what all would show.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

VARIABLE = "HOLDFAST_DRAWS"
SHARES = {"few": 10, "some": 3, "all": 1}
"""One in so many is drawn."""


@dataclass(frozen=True, slots=True)
class Draws:
    """How many of so many are drawn."""

    one_in: int

    def __call__(self, every: int, least: int = 1) -> int:
        """The share of `every`, but `least` of them if there are so many."""
        return min(every, max(least, math.ceil(every / self.one_in)))


def asked() -> Draws:
    """What the environment asks for."""
    word = os.environ.get(VARIABLE, "few")
    if word not in SHARES:
        raise ValueError(f"{VARIABLE}={word}: one of {', '.join(SHARES)}")
    return Draws(SHARES[word])
