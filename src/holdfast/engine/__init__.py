"""Executes what commands request: runs, campaigns, sweeps, seeds, shrinking. Imports no command."""
