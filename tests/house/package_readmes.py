"""The README of each package beside the core: what it is, by hand; what others use of it and what
it imports, from the sources. `python -m tests.house.package_readmes` writes the second part anew.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.house.imports import modules
from tests.house.wall import PACKAGES, imported, package_of

MOST_LINES = 20
USED = "Used from outside"
IMPORTS = "Imports"
WIDTH = 100


def readmes() -> dict[str, Path]:
    """Package -> its README, in the first folder that is all its own; none if it has only files."""
    places = {}
    for package, parts in PACKAGES.items():
        folders = [modules()[part].parent for part in parts if is_folder(part)]
        if folders:
            places[package] = folders[0] / "README.md"
    return places


def is_folder(part: str) -> bool:
    """Whether a part of a package is a folder of modules."""
    return part in modules() and modules()[part].name == "__init__.py"


def used(package: str) -> list[str]:
    """Modules of a package that other packages, the core or doors import."""
    return sorted(
        {
            target
            for module in modules()
            if package_of(module) != package
            for target in imported(module)
            if package_of(target) == package
        }
    )


def imports(package: str) -> list[str]:
    """The core, doors and other packages that a package imports."""
    reached = {
        package_of(target)
        for module in modules()
        if package_of(module) == package
        for target in imported(module)
    }
    named = {"core": "the core", "door": "the catalogue"}
    return sorted(named.get(one, one) for one in reached - {package})


def derived(package: str) -> str:
    """The lines of its README that follow from the sources."""
    lines = []
    for title, names in (
        (USED, [f"`{name}`" for name in used(package)]),
        (IMPORTS, imports(package)),
    ):
        text = f"{title}: {', '.join(names) or 'nothing'}."
        lines += textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def written(package: str, path: Path) -> str:
    """The whole README: what a person wrote, then what follows from the sources."""
    before = path.read_text().partition(f"\n{USED}: ")[0]
    return f"{before.rstrip()}\n\n{derived(package)}"


def main() -> None:
    """Write the second part of each README."""
    for package, path in readmes().items():
        path.write_text(written(package, path))


if __name__ == "__main__":
    main()
