"""Servers from images of the user's own: each a container that shares its node's network and pids.

The node's container stays what it is: it has the address, and it ends with its driver. What runs in
its pid namespace ends with it, so nothing is asked of the image but a program that serves. Faults
come from the host's side, by process id and network namespace, like everywhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.clusters.backends import processes
from holdfast.clusters.backends.docker.engine import END_S, Engine
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Image

ENTERING = (b"runc", b"/proc/self/exe")
HEARD_S = 5


def start(
    engine: Engine, host: str, command: Command, labels: Mapping[str, str], *, where: str
) -> tuple[int, threading.Thread]:
    """Starts the command's image beside the container `host`, again after it ended.

    Its host pid, and the thread that writes its log until it has ended. What it had written in its
    own files is still there when it starts again. Raises EnvironmentFailed where there is no such
    image, or, with `where`, where it ends at once.
    """
    assert command.image is not None
    api, name = engine.api, f"{host}-server"
    if api.containers(all=True, filters={"name": f"^/{name}$"}):
        api.wait(name, timeout=END_S)
    else:
        _make(api, name, host, command, command.image, labels)
    said = api.attach(name, stdout=True, stderr=True, stream=True)
    hearing = threading.Thread(target=_keep, args=(said, command.log), daemon=True)
    hearing.start()
    api.start(name)
    pid = int(api.inspect_container(name)["State"]["Pid"])
    if not pid:
        hearing.join(HEARD_S)
        last = processes.last_words(command.log)
        raise EnvironmentFailed(f"{where} exited at its start: {last}")
    return pid, hearing


def _make(
    api: Any, name: str, host: str, command: Command, image: Image, labels: Mapping[str, str]
) -> None:
    if not api.images(image.name):
        raise EnvironmentFailed(
            f"docker: missing image {image.name}; build it: docker build -t {image.name} ."
        )
    api.create_container(
        image.name,
        list(command.argv) or None,
        name=name,
        user=f"{os.getuid()}:{os.getgid()}",
        environment=dict(command.env),
        labels=dict(labels),
        host_config=api.create_host_config(
            network_mode=f"container:{host}",
            pid_mode=f"container:{host}",
            binds={str(image.data): {"bind": image.at, "mode": "rw"}},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            log_config={"Type": "none", "Config": {}},
        ),
    )


def _keep(said: Iterable[bytes], log: Path) -> None:
    """Writes what a container says, until it has ended."""
    with log.open("ab", buffering=0) as kept:
        for part in said:
            kept.write(part)
