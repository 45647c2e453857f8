"""One seed, one history."""
