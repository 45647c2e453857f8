"""ilock: a lock file that the release removes."""


class ILocks:
    libraries = ("ilock==1.0.3",)
    bound = "connection"

    def __init__(self, servers, options):
        self.held = {}

    def acquire(self, lock, owner, lease_s):
        from ilock import ILock, ILockException

        one = ILock(lock, timeout=0)
        try:
            one.__enter__()
        except ILockException:
            return False
        self.held[owner] = one
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        if one is None:
            return False
        one.__exit__(None, None, None)
        return True
