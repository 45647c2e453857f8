"""Rows of the catalogue: a system with servers, a backend."""

from __future__ import annotations

from dataclasses import replace

from holdfast.catalogue import BACKENDS, SYSTEMS

NEARBY = replace(BACKENDS["local-proxy"], says="local-proxy under another name")
MODEST = replace(
    SYSTEMS["single"], entry="holdfast_example.system:SYSTEM", says="promises little", known=()
)
