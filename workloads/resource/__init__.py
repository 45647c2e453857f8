"""The protected resource: server, client, planted bugs."""
