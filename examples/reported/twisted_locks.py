"""Twisted: a symbolic link that names its owner's process; who finds that one dead removes it."""

import tempfile


class FileLocks:
    libraries = ("Twisted==26.10.0",)
    bound = "none"

    def __init__(self, servers, options):
        self.held = {}

    def acquire(self, lock, owner, lease_s):
        from twisted.python.lockfile import FilesystemLock

        one = FilesystemLock(f"{tempfile.gettempdir()}/twisted-{lock}.lock")
        if not one.lock():
            return False
        self.held[owner] = one
        return True

    def release(self, lock, owner):
        one = self.held.pop(owner, None)
        if one is None:
            return False
        one.unlock()
        return True
