"""A lock on a key of etcd that a lease removes, by its JSON gateway; over JSON lines.

lock.py SERVER,...
"""

import base64
import json
import sys
import threading
import time
import urllib.request

POLL_S = 0.05
SERVERS = sys.argv[1].split(",")
LEASES = {}
"""owner -> id of its lease"""


def call(path, body):
    """The response of the first server that has one. OSError if none has."""
    last = OSError("no server")
    for server in SERVERS:
        url = f"http://{server}:2379/v3/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=1) as response:
                return json.loads(response.readline())
        except ConnectionRefusedError as error:
            last = error
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            last = error
    raise last


def text(word):
    return base64.b64encode(str(word).encode()).decode()


def acquire(lock, owner, lease_ms):
    """The revision of the grant, None if another holds it."""
    # etcd ends leases by whole seconds.
    lease = call("lease/grant", {"TTL": -(-lease_ms // 1000)})["ID"]
    put = {"requestPut": {"key": text(lock), "value": text(owner), "lease": lease}}
    free = {"key": text(lock), "target": "CREATE", "createRevision": "0"}
    done = call("kv/txn", {"compare": [free], "success": [put]})
    if not done.get("succeeded"):
        call("lease/revoke", {"ID": lease})
        return None
    LEASES[owner] = lease
    return int(done["header"]["revision"])


def answer(ask):
    lock, owner, lease = ask["lock"], ask["attempt"], ask["lease_ms"]
    if ask["op"] == "renew":
        kept = call("lease/keepalive", {"ID": LEASES.get(owner, "0")}).get("result", {})
        return {"outcome": "ok" if int(kept.get("TTL", 0)) > 0 else "not_owner"}
    if ask["op"] == "release":
        mine = {"key": text(lock), "target": "VALUE", "value": text(owner)}
        delete = {"requestDeleteRange": {"key": text(lock)}}
        done = call("kv/txn", {"compare": [mine], "success": [delete]})
        return {"outcome": "ok" if done.get("succeeded") else "not_owner"}
    bound = ask["timeout_ms"]
    until = time.monotonic() + bound / 1000 if bound >= 0 else float("inf")
    while (token := acquire(lock, owner, lease)) is None:
        if time.monotonic() + POLL_S > until:
            return {"outcome": "fail"}
        time.sleep(POLL_S)
    return {"outcome": "ok", "token": token}


def serve(ask):
    try:
        outcome = answer(ask)
    except OSError as error:
        outcome = {"outcome": "info", "error": str(error)}
    with WRITING:
        sys.stdout.write(json.dumps({"id": ask["id"], **outcome}) + "\n")
        sys.stdout.flush()


WRITING = threading.Lock()
if __name__ == "__main__":
    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()
