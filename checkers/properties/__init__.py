"""One checker per property, with its private parts beside it."""
