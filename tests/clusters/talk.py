"""What test nodes run: `listen ADDRESS` answers callers, `call ADDRESS` logs the answer, `idle`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

PORT = 7400
PATIENCE_S = 10


def listen(address: str) -> None:
    """Tells every caller which network namespace answers, and where the call came from."""
    with socket.create_server((address, PORT)) as server:
        while True:
            connection, (caller, _) = server.accept()
            with connection:
                connection.sendall(f"{os.readlink('/proc/self/ns/net')} {caller}".encode())


def call(address: str) -> None:
    """Logs the namespace of the caller and the answer, once somebody listens."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection((address, PORT), timeout=PATIENCE_S) as connection:
                answer = connection.makefile().read()
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    sys.stdout.write(f"{os.readlink('/proc/self/ns/net')} {answer} {os.environ['MARK']}\n")


def idle() -> None:
    """Stays, with a child that stays too, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
    signal.pause()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["listen", address]:
            listen(address)
        case ["call", address]:
            call(address)
        case ["idle"]:
            idle()
