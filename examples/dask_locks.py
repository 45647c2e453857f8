"""dask.distributed: its Lock and its Semaphore, leases that a scheduler keeps in memory.

A client refreshes its leases by itself, five times within one. A lease that ended is granted again
while its owner goes on; its documentation says so ("overbooking").
"""

import os

PORT = 8786
LEASE_S = 10
CONFIG = {
    "distributed.scheduler.locks.lease-timeout": f"{LEASE_S}s",
    "distributed.scheduler.locks.lease-validation-interval": "500ms",
}
# Within a lease: a client that is stopped or cut off for longer loses it and is not notified.
PROMISES = {
    "mutual-exclusion": ["client-side"],
    "deadlock-freedom": ["client-side"],
    "orphan-freedom": ["client-side"],
    "no-hung-request": ["client-side"],
}
SCHEDULER = f"""
import dask, sys
dask.config.set({CONFIG!r})
from distributed.cli.dask_scheduler import main
main(["--host", sys.argv[1], "--port", "{PORT}", "--no-dashboard", "--no-show"])
"""


class Locks:
    nodes = 1
    ports = (PORT,)
    libraries = ("distributed==2026.8.0",)
    bound = "none"
    lapse_ms = LEASE_S * 1000 + 500
    waits = True
    promises = PROMISES

    @staticmethod
    def server(name, servers, data, options):
        os.makedirs(data, exist_ok=True)
        return ["-c", SCHEDULER, dict(servers)[name]]

    def __init__(self, servers, options):
        self.address, self.client, self.held = f"tcp://{servers[0][1]}:{PORT}", None, {}

    def made(self, lock, limit):
        from distributed import Lock

        return Lock(lock)

    def connected(self):
        import dask
        from distributed import Client

        if self.client is None:
            dask.config.set(CONFIG)
            self.client = Client(self.address, timeout="5s")

    def acquire(self, lock, owner, lease_s, timeout_s):
        return self.take(lock, owner, timeout_s, 1)

    def take(self, lock, owner, timeout_s, limit):
        self.connected()
        one = self.made(lock, limit)
        if not one.acquire(timeout=timeout_s):
            return False
        self.held[owner] = one
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        if one is None:
            return False
        if not one.release():
            raise OSError("the release may not have reached the scheduler")
        return True


class Semaphores(Locks):
    most_permits = 1

    def made(self, lock, limit):
        from distributed import Semaphore

        return Semaphore(max_leases=limit, name=lock)

    def acquire(self, lock, owner, lease_s, timeout_s, permits=1, limit=2):
        return self.take(lock, owner, timeout_s, limit)
