"""What a driver may ask of a backend beyond the `Backend` port.

All backends of this room have both abilities; a backend of a third party may lack them. Each
module of a backend also has `precheck()`: why this machine cannot run it, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.harness.ports import Node


class Namespaces(Protocol):
    """Says through which process the fault agent finds a node's network namespace."""

    def holder_pid(self, node: str) -> int:
        """Host pid of a process that holds the namespace as long as the node exists."""
        ...


class Vantage(Protocol):
    """Says under which addresses one node reaches the others."""

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes in deploy order, with the addresses by which `node` reaches them."""
        ...
