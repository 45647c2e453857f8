"""What proves a finding, and an opportunity, in the second program: a module per property."""
