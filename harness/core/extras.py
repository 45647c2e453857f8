"""Optional packages: the extra of Holdfast that installs each, and the message if it is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from holdfast.harness.core.errors import EnvironmentFailed

EXTRAS = {
    "docker": "docker",
    "yaml": "docker",
    "paramiko": "ssh",
    "distributed": "cluster",
    "pyarrow": "parquet",
    "pandas": "frame",
    "matplotlib": "plot",
}
"""Package as it is imported -> the extra that installs it."""


def problem(package: str) -> str | None:
    """Why an optional package cannot be used (text after the name of its user), or None.

    Imports it: an installed but broken package counts as missing, with its own reason.
    """
    install = f"'holdfast[{EXTRAS[package.partition('.')[0]]}]'"
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name == package:
            return f"needs the package {package}: pip install {install}"
        return _broken(package, install, error)
    # A broken package raises whatever its own code raises: OSError, AttributeError ...
    except Exception as error:
        return _broken(package, install, error)
    return None


def load(package: str, user: str) -> ModuleType:
    """The optional package; EnvironmentFailed, which names its `user`, if it cannot be used."""
    reason = problem(package)
    if reason is not None:
        raise EnvironmentFailed(f"{user} {reason}")
    return importlib.import_module(package)


def _broken(package: str, install: str, error: Exception) -> str:
    why = f"{type(error).__name__}: {error}"
    return f"cannot import the package {package} ({why}): pip install --force-reinstall {install}"
