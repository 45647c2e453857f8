"""Re-execution of recorded simulated runs: their steps, causes, states and branches."""
