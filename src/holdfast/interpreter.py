"""Which build of Python runs: figures of speed depend on how it was compiled."""

from __future__ import annotations

import platform
import sysconfig

OPTION = "--enable-optimizations"
DEBIAN = "deb_system"
"""An install scheme of Debian's and Ubuntu's builds, which are optimised by a profile of their own
without the option."""


def optimised() -> bool:
    """Whether it was compiled with the help of a profile."""
    words = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return OPTION in words or DEBIAN in sysconfig.get_scheme_names()


def build() -> str:
    """Implementation, version, compiler, and whether it is optimised; one line."""
    how = "optimised" if optimised() else f"built without {OPTION}"
    name, version = platform.python_implementation(), platform.python_version()
    return f"{name} {version} ({platform.python_compiler()}), {how}"
