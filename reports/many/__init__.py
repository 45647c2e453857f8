"""Pages about many runs: matrix, campaign, browsing."""
