"""Tables of the catalogue: built-in rows, then plug-ins and files of the user by their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

R = TypeVar("R")


class Table(dict[str, R], Generic[R]):
    """The built-in rows of one kind. A name that is not among them is looked up when it is used.

    Iteration yields the built-in names only; `Names` has those of plug-ins too.
    """

    def __init__(self, kind: str, rows: Mapping[str, R]) -> None:
        super().__init__(rows)
        self.kind = kind

    def __missing__(self, name: str) -> R:
        from holdfast.catalogue import plug_ins

        found: R = plug_ins.row(self.kind, name)
        return found


class Names(Collection[str], Generic[R]):
    """The names of a table, those of installed plug-ins last. Looks for plug-ins only if needed."""

    def __init__(self, table: Table[R]) -> None:
        self._table = table

    def __contains__(self, name: object) -> bool:
        return name in self._table or name in self._installed()

    def __iter__(self) -> Iterator[str]:
        yield from self._table
        yield from (name for name in self._installed() if name not in self._table)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _installed(self) -> Collection[str]:
        from holdfast.catalogue import plug_ins

        return plug_ins.installed(self._table.kind)
