"""Models of correct lock services, whose histories no checker may find a violation in."""
