"""Workloads: one coroutine per client, and the protected resource."""
