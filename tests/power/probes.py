"""Probes: which mutants a test could tell from the code as it is.

A mutant changes one expression. A test in which the changed expression never has another value than
the one as written cannot fail because of it: `a < b` and `a <= b` are the same to a test in which a
never equals b. So all functions get code that computes both, and the tests run once:

    if a < b:      ->      if guard(7, both(3, a, b)):

`both(3, ...)` returns `a < b` and notes the mutants of place 3 whose value differs. Where there
is nothing to compare, `reached` notes that the statement around it was executed: that is more than
what can be told apart, never less.
"""

from __future__ import annotations

import ast
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Add: operator.add, ast.Sub: operator.sub,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
NEVER, ALWAYS = "guard never", "guard always"
Ids = Mapping[str, int]
"""The mutants of one node: what is changed, and the mutant's number."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One mutant of `left op right`: another operator, or one more on a side that is a constant."""

    mutant: int
    does: Callable[[Any, Any], Any]
    more: tuple[int, int] = (0, 0)

    def differs(self, value: Any, left: Any, right: Any) -> bool:
        try:
            other = self.does(
                left + self.more[0] if self.more[0] else left,
                right + self.more[1] if self.more[1] else right,
            )
            if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
                return not np.array_equal(value, other)
            return bool(value != other)
        except Exception:
            return True


@dataclass(slots=True)
class Probes:
    """What the changed code calls.

    seen     mutants that could be told apart since the last `taken`
    """

    seen: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    binary: list[tuple[Callable[[Any, Any], Any], list[Variant]]] = field(default_factory=list)
    statements: list[Sequence[int]] = field(default_factory=list)
    guards: list[tuple[int | None, int | None]] = field(default_factory=list)

    def taken(self) -> list[int]:
        """The mutants told apart since the last call."""
        taken = sorted(self.seen)
        self.seen.clear()
        self.done.clear()
        return taken

    def both(self, place: int, left: Any, right: Any) -> Any:
        does, variants = self.binary[place]
        value = does(left, right)
        if place not in self.done:
            unseen = [variant for variant in variants if variant.mutant not in self.seen]
            if not unseen:
                self.done.add(place)
            self.seen.update(one.mutant for one in unseen if one.differs(value, left, right))
        return value

    def reached(self, place: int) -> None:
        if ~place not in self.done:
            self.done.add(~place)
            self.seen.update(self.statements[place])

    def guard(self, place: int, value: Any) -> Any:
        mutant = self.guards[place][0 if value else 1]
        if mutant is not None:
            self.seen.add(mutant)
        return value

    def names(self) -> dict[str, object]:
        """What the globals of a changed module need."""
        return {f"__{name}__": getattr(self, name) for name in ("both", "reached", "guard")}


class Probing(ast.NodeTransformer):
    """Puts probes into one function."""

    def __init__(
        self,
        ids: Mapping[ast.AST, Ids],
        probes: Probes,
        swapped: Mapping[type[ast.AST], type[ast.AST]],
    ) -> None:
        self.ids, self.probes, self.swapped = ids, probes, swapped
        self.open: list[list[int]] = [[]]
        """Per statement around the present node its mutants for `reached`."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.JoinedStr):
            return node
        if isinstance(node, ast.stmt):
            return self._statement(node)
        return self._expression(node)

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        self.open.append([])
        ids = dict(self.ids.get(node, {}))
        self.generic_visit(node)
        if isinstance(node, ast.If | ast.While):
            node.test = self._guarded(node.test, ids)
        mine = [*self.open.pop(), *ids.values()]
        if not mine:
            return [node]
        self.probes.statements.append(mine)
        place = len(self.probes.statements) - 1
        return [ast.Expr(_call("__reached__", place)), node]

    def _expression(self, node: ast.AST) -> ast.AST:
        ids = dict(self.ids.get(node, {}))
        sides = _sides(node)
        if sides and (does := OPERATORS.get(type(sides[0]))):
            operand, left, right = sides
            variants = [
                Variant(ids.pop(what), OPERATORS[self.swapped[type(operand)]]) for what in list(ids)
            ]
            for side, more in ((left, (1, 0)), (right, (0, 1))):
                own = self.ids.get(side, {}) if isinstance(side, ast.Constant) else {}
                variants += [Variant(mutant, does, more) for mutant in own.values()]
            if variants:
                self.probes.binary.append((does, variants))
                place = len(self.probes.binary) - 1
                parts = [
                    side if isinstance(side, ast.Constant) else self.visit(side)
                    for side in (left, right)
                ]
                return _call("__both__", place, *parts)
        self.generic_visit(node)
        if isinstance(node, ast.IfExp):
            node.test = self._guarded(node.test, ids)
        self.open[-1] += ids.values()
        return node

    def _guarded(self, test: ast.expr, ids: dict[str, int]) -> ast.expr:
        if NEVER not in ids:
            return test
        self.probes.guards.append((ids.pop(NEVER), ids.pop(ALWAYS, None)))
        return _call("__guard__", len(self.probes.guards) - 1, test)


def _sides(node: ast.AST) -> tuple[ast.AST, ast.expr, ast.expr] | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return node.ops[0], node.left, node.comparators[0]
    if isinstance(node, ast.BinOp):
        return node.op, node.left, node.right
    return None


def _call(name: str, place: int, *rest: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(place), *rest], [])


def put_probes(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    ids: Mapping[ast.AST, Ids],
    probes: Probes,
    swapped: Mapping[type[ast.AST], type[ast.AST]],
) -> None:
    """Changes the body of a function, in place."""
    probing = Probing(ids, probes, swapped)
    function.body = [new for old in function.body for new in probing.visit(old)]


def by_node(numbered: Sequence[tuple[ast.AST, str, int]]) -> dict[ast.AST, Ids]:
    """The numbers of mutants by the node they change."""
    nodes: defaultdict[ast.AST, dict[str, int]] = defaultdict(dict)
    for node, what, mutant in numbered:
        nodes[node][what] = mutant
    return dict(nodes)
