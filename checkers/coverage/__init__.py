"""Whether a run exercised a property enough for HOLDS."""
