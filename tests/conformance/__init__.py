"""One suite of small plans, on the simulated and on the local arm."""
