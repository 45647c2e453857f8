"""diskcache: BoundedSemaphore in a cache that holds data as well, and Lock with an end."""

import os
import tempfile


class Semaphores:
    libraries = ("diskcache==5.6.3",)
    bound = "none"
    waits = True

    def __init__(self, servers, options):
        from diskcache import Cache

        self.cache, self.held = Cache(f"{tempfile.gettempdir()}/diskcache", size_limit=2**16), {}

    def acquire(self, lock, owner, lease_s, timeout_s, permits=1, limit=2):
        from diskcache import BoundedSemaphore

        one = self.held[owner] = BoundedSemaphore(self.cache, lock, value=limit)
        one.acquire()
        self.cache[owner] = os.urandom(2**13)
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        if one is None:
            return False
        one.release()
        return True


class Locks:
    libraries = ("diskcache==5.6.3",)
    proves = False
    waits = True

    def __init__(self, servers, options):
        from diskcache import Cache

        self.cache, self.held = Cache(f"{tempfile.gettempdir()}/diskcache-locks"), {}

    def acquire(self, lock, owner, lease_s, timeout_s):
        from diskcache import Lock

        self.held[owner] = Lock(self.cache, lock, expire=lease_s)
        self.held[owner].acquire()
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        if one is None:
            return False
        one.release()
        return True
