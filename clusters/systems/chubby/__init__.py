"""Sessions, lock-delay and sequencers: a mode of the reference service."""
