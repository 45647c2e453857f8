"""A backend under another name: what differs from a built-in one is its row."""

from __future__ import annotations

from dataclasses import replace

from holdfast.catalogue import BACKENDS

NEARBY = replace(BACKENDS["local-proxy"], says="local-proxy under another name")
