"""Plans: the plan of a run, its manifest, shrinking a failing plan."""
