"""A client program in Python without Holdfast: a lock on one Redis, over JSON lines.

    redis_lock.py ADDRESS

Requests come on standard input, answers leave on standard output, one JSON object a line.
"""

import json
import socket
import sys
import threading
import time

PORT = 6379
POLL_S = 0.01
RENEW = "return redis.call('get',KEYS[1])==ARGV[1] and redis.call('pexpire',KEYS[1],ARGV[2]) or 0"
FREE = "return redis.call('get',KEYS[1])==ARGV[1] and redis.call('del',KEYS[1]) or 0"


class Redis:
    """One connection; every command waits for its answer. OSError where none came."""

    def __init__(self, address):
        self.address = address
        self.guard = threading.Lock()
        self.plug = None

    def ask(self, *words):
        with self.guard:
            try:
                if self.plug is None:
                    self.plug = socket.create_connection((self.address, PORT), timeout=1)
                    self.lines = self.plug.makefile("rb")
                parts = [f"${len(str(word))}\r\n{word}\r\n" for word in words]
                self.plug.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
                said = self.lines.readline().decode().strip()
                if not said:
                    raise OSError("the server closed the connection")
            except OSError:
                # An answer that comes later must not meet another question.
                self.plug = None
                raise
        return said


def answer(redis, ask):
    """The outcome of one request and, where there is one, the reason."""
    lock, owner, lease = ask["lock"], ask["attempt"], ask["lease_ms"]
    if ask["op"] == "renew":
        done = redis.ask("EVAL", RENEW, 1, lock, owner, lease) == ":1"
        return "ok" if done else "not_owner"
    if ask["op"] == "release":
        return "ok" if redis.ask("EVAL", FREE, 1, lock, owner) == ":1" else "not_owner"
    bound = ask["timeout_ms"]
    until = time.monotonic() + bound / 1000 if bound >= 0 else float("inf")
    while redis.ask("SET", lock, owner, "NX", "PX", lease) != "+OK":
        if time.monotonic() + POLL_S > until:
            return "fail"
        tell({"event": "waiting", "lock": lock, "attempt": owner})
        time.sleep(POLL_S)
    return "ok"


def serve(redis, ask):
    try:
        tell({"id": ask["id"], "outcome": answer(redis, ask)})
    except OSError as error:
        tell({"id": ask["id"], "outcome": "info", "error": str(error)})


def tell(said):
    with WRITING:
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


WRITING = threading.Lock()
if __name__ == "__main__":
    # Renewals and waits of one client go on side by side, each in a connection of its own.
    for line in sys.stdin:
        request = json.loads(line)
        threading.Thread(target=serve, args=(Redis(sys.argv[1]), request), daemon=True).start()
