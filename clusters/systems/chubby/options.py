"""What the mode is made of, where nothing else is given."""

DEFAULTS = {"session_ms": "1500", "delay_ms": "1000"}
