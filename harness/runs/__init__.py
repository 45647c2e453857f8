"""Run directories: layout, registry of running ones, index of finished ones."""
