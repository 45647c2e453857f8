"""A lock on the primary that the sentinels name, as a client program over JSON lines.

lock.py SENTINEL...
"""

import json
import socket
import sys
import threading
import time

POLL_S = 0.05
RENEW = "return redis.call('get',KEYS[1])==ARGV[1] and redis.call('pexpire',KEYS[1],ARGV[2]) or 0"
FREE = "return redis.call('get',KEYS[1])==ARGV[1] and redis.call('del',KEYS[1]) or 0"


def call(host, port, *words):
    """One command in a connection of its own; a list for a list, else a text. OSError."""
    with socket.create_connection((host, port), timeout=1) as connection:
        parts = [f"${len(str(word))}\r\n{word}\r\n" for word in words]
        connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        lines = connection.makefile("r", newline="\r\n")
        first = lines.readline().strip()
        if not first or first.startswith("-"):
            raise OSError(first or "the server closed the connection")
        if first.startswith("*") and first != "*-1":
            return [lines.readline() and lines.readline().strip() for _ in range(int(first[1:]))]
        return first


def primary():
    """The host that the first sentinel to answer names. OSError if none answers."""
    for sentinel in sys.argv[1:]:
        try:
            return call(sentinel, 26379, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locks")[0]
        except OSError:
            continue
    raise OSError("no sentinel answers")


def answer(ask):
    lock, owner, lease = ask["lock"], ask["attempt"], ask["lease_ms"]
    if ask["op"] == "renew":
        done = call(primary(), 6379, "EVAL", RENEW, 1, lock, owner, lease) == ":1"
        return "ok" if done else "not_owner"
    if ask["op"] == "release":
        return "ok" if call(primary(), 6379, "EVAL", FREE, 1, lock, owner) == ":1" else "not_owner"
    bound = ask["timeout_ms"]
    until = time.monotonic() + bound / 1000 if bound >= 0 else float("inf")
    while call(primary(), 6379, "SET", lock, owner, "NX", "PX", lease) != "+OK":
        if time.monotonic() + POLL_S > until:
            return "fail"
        time.sleep(POLL_S)
    return "ok"


def serve(ask):
    try:
        outcome = {"outcome": answer(ask)}
    except OSError as error:
        outcome = {"outcome": "info", "error": str(error)}
    with WRITING:
        sys.stdout.write(json.dumps({"id": ask["id"], **outcome}) + "\n")
        sys.stdout.flush()


WRITING = threading.Lock()
if __name__ == "__main__":
    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()
