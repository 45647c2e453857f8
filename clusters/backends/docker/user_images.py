"""Servers from a user's images: each a container that shares its node's network and pids.

The node's container has the address, and ends with its driver. All processes in its pid namespace
end with it, so the image only needs a program that serves. Faults are injected from the host, by
process id and network namespace, as for every node.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.clusters.backends import processes
from holdfast.clusters.backends.docker.engine import END_S, ContainerEngine
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Build, Command, Image

if TYPE_CHECKING:
    import docker

ENTERING = (b"runc", b"/proc/self/exe")
HEARD_S = 5
NOT_RUNNING = 409
BUILDING = threading.Lock()


def start(
    engine: ContainerEngine, host: str, command: Command, labels: Mapping[str, str], *, where: str
) -> tuple[int, threading.Thread]:
    """Starts the command's image beside the container `host`, or restarts it after it ended.

    Returns its host pid, and the thread that writes its log until it has ended. A restart keeps the
    container's own files. Raises EnvironmentFailed if there is no such image, or, with `where`, if
    it exits at once.
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
        last = processes.last_output(command.log)
        raise EnvironmentFailed(f"{where} exited at its start: {last}")
    return pid, hearing


def passes(engine: ContainerEngine, host: str, test: Sequence[str]) -> bool:
    """Whether the words of a test succeed in the image's container beside `host`; false if it does
    not run."""
    from docker.errors import APIError

    api = engine.api
    try:
        made = api.exec_create(f"{host}-server", list(test))
        api.exec_start(made["Id"])
    except APIError as error:
        if error.status_code == NOT_RUNNING:
            return False
        raise
    return bool(api.exec_inspect(made["Id"])["ExitCode"] == 0)


def _build(api: docker.APIClient, name: str, build: Build) -> None:
    """Builds an image, as far as the engine has not built the same before. One build after another:
    services that start together may share an image, whose second build would leave one more."""
    with BUILDING:
        _carry_out(api, name, build)


def _carry_out(api: docker.APIClient, name: str, build: Build) -> None:
    steps = api.build(
        path=str(build.folder),
        dockerfile=build.dockerfile,
        buildargs=dict(build.args),
        target=build.stage,
        tag=name,
        rm=True,
        forcerm=True,
        decode=True,
    )
    for step in steps:
        if "error" in step:
            raise EnvironmentFailed(f"docker: image {name} of {build.folder}: {step['error']}")


def _make(
    api: docker.APIClient,
    name: str,
    host: str,
    command: Command,
    image: Image,
    labels: Mapping[str, str],
) -> None:
    if image.build is not None:
        _build(api, image.name, image.build)
    if not api.images(image.name):
        raise EnvironmentFailed(
            f"docker: missing image {image.name}; build it: docker build -t {image.name} ., or"
            f" fetch it: docker pull {image.name}"
        )
    # A process of another user needs root to be stopped, and its files to be removed.
    own = image.own_rights and os.geteuid() == 0
    confined = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    api.create_container(
        image.name,
        list(command.argv) or None,
        name=name,
        entrypoint=None if image.entrypoint is None else list(image.entrypoint),
        user=(image.user or None) if own else f"{os.getuid()}:{os.getgid()}",
        working_dir=image.folder or None,
        environment=dict(command.env),
        labels=dict(labels),
        host_config=api.create_host_config(
            network_mode=f"container:{host}",
            pid_mode=f"container:{host}",
            binds={
                str(mount.source): {"bind": mount.at, "mode": "rw" if mount.writable else "ro"}
                for mount in image.mounts
            },
            tmpfs=dict.fromkeys(image.tmpfs, "") or None,
            log_config={"Type": "none", "Config": {}},
            **({} if own else confined),
        ),
    )


def _keep(said: Iterable[bytes], log: Path) -> None:
    """Writes a container's output to its log, until it has ended."""
    with log.open("ab", buffering=0) as kept:
        for part in said:
            kept.write(part)
