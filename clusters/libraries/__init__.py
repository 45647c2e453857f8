"""Published lock libraries under test: unmodified, pinned, used as their users do."""
