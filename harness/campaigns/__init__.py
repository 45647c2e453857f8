"""Many runs: what a campaign does, its journal, results, summary, baseline and gate."""
