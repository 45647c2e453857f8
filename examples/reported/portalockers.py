"""portalocker: a lock by who else listens to a channel of Redis."""


class RedisLocks:
    libraries = ("portalocker==3.1.1", "redis==6.4.0")
    bound = "connection"
    promises = dict.fromkeys(("mutual-exclusion", "no-false-rejection", "deadlock-freedom"), "any")

    def __init__(self, servers, options):
        self.address, self.held = servers[0][1], {}

    def acquire(self, lock, owner, lease_s):
        from portalocker import AlreadyLocked, RedisLock

        one = RedisLock(lock, timeout=0, redis_kwargs={"host": self.address})
        try:
            one.acquire(fail_when_locked=True)
        except AlreadyLocked:
            return False
        self.held[owner] = one
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        if one is None:
            return False
        one.release()
        return True
