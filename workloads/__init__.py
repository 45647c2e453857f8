"""What the clients do: one coroutine per client, and the resource that they protect."""
