"""Modules at random with the first line of their docstrings: `python -m tests.house.guess 60 7`.

To be read by a person: does the path already say what the line says?
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Sequence

from tests.house.imports import ROOT, modules, tree


def sampled(count: int, seed: int) -> list[tuple[str, str]]:
    """(path, first paragraph of its docstring) of modules, sorted; of packages none."""
    every = sorted(path for path in modules().values() if path.name != "__init__.py")
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    return [
        (str(path.relative_to(ROOT)), (ast.get_docstring(tree(path)) or "-")
         .partition("\n\n")[0].replace("\n", " "))
        for path in sorted(chosen)
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Print the sample."""
    parser = argparse.ArgumentParser(description="Print modules with their first lines.")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    told = parser.parse_args(argv)
    for path, line in sampled(told.count, told.seed):
        print(f"{path:<60} {line}")  # noqa: T201


if __name__ == "__main__":
    main()
