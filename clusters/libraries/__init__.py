"""Published lock libraries as subjects: unmodified, pinned, driven as their users do."""
