"""Where the processes live, and which lock services run there."""
