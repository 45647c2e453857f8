"""Places for processes: nodes, addresses, pids."""
