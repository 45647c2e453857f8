"""One checker per property, with its private modules."""
