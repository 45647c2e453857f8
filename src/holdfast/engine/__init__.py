"""What the commands carry out: runs, campaigns, sweeps, seeds, shrinking. Imports no command."""
