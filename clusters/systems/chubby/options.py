"""Default options of the Chubby mode."""

DEFAULTS = {"session_ms": "1500", "delay_ms": "1000"}
