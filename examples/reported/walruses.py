"""walrus: a lock on Redis whose waiters block on a list that a release pushes to."""


class Locks:
    libraries = ("walrus==0.9.8", "redis==6.4.0")
    waits = True

    def __init__(self, servers, options):
        self.address, self.held = servers[0][1], {}

    def acquire(self, lock, owner, lease_s, timeout_s):
        from walrus import Database

        one = Database(host=self.address).lock(lock, ttl=int(lease_s * 1000))
        if not one.acquire(block=timeout_s != 0):
            return False
        self.held[owner] = one
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        return one is not None and one.release()
