"""The simulated world, piece by piece."""
