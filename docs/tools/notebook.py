"""The notebook of the examples with its outputs: `python -m docs.tools.notebook`.

Its cells are run in order in one namespace, as a kernel runs them, and what each shows is stored:
the value of its last expression as text, and as HTML if it has that; a figure as a small picture.
Runs are simulated and have a seed, so the same code gives the same text. Needs `frame` and `plot`.
"""

from __future__ import annotations

import ast
import base64
import importlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "frozen-holder.ipynb"
DPI = 60


def run(cell: dict[str, Any], names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell; its outputs as a notebook stores them."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body[-1]
    value = None
    if isinstance(last, ast.Expr):
        tree.body.pop()
        exec(compile(tree, cell["id"], "exec"), names)
        value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
    else:
        exec(compile(tree, cell["id"], "exec"), names)
    pictures = [] if value is not None else figures()
    return [*([result(value, cell)] if value is not None else []), *pictures]


def result(value: object, cell: dict[str, Any]) -> dict[str, Any]:
    """The output of a value: as text, and as HTML if it has that."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    as_html = getattr(value, "_repr_html_", None)
    if as_html is not None:
        data["text/html"] = as_html().splitlines(keepends=True)
    count = cell["execution_count"]
    return {
        "output_type": "execute_result",
        "execution_count": count,
        "data": data,
        "metadata": {},
    }


def figures() -> list[dict[str, Any]]:
    """The open figures, which are closed."""
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is None:
        return []
    made = []
    for number in plots.get_fignums():
        kept = io.BytesIO()
        plots.figure(number).savefig(kept, format="png", dpi=DPI, metadata={"Software": None})
        picture = base64.b64encode(kept.getvalue()).decode()
        made.append({"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}})
    plots.close("all")
    return made


def with_outputs(book: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """A notebook whose cells were run in the current folder, with their outputs."""
    importlib.import_module("matplotlib").use("Agg")
    cells, count = [], 0
    for cell in book["cells"]:
        made = dict(cell)
        if cell["cell_type"] == "code":
            count += 1
            made["execution_count"] = count
            made["outputs"] = run(made, names)
        cells.append(made)
    return {**book, "cells": cells}


def main() -> None:
    """Run the notebook in an empty folder and write it with its outputs."""
    book = json.loads(NOTEBOOK.read_text())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        book = with_outputs(book, {})
        os.chdir(ROOT)
    NOTEBOOK.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{NOTEBOOK.relative_to(ROOT)}: {NOTEBOOK.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
