"""The protected resource: its server, its client, bugs planted in it."""
