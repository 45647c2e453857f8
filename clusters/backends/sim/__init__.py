"""The simulator: a whole run in one process, on virtual time, from one seed."""
