"""How operations are recorded: memory-mapped segments, socket timestamps, clock synchronisation."""
