"""The container engine of this host: one connection per thread, errors as EnvironmentFailed."""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.harness.core import extras
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Place
from holdfast.harness.runs import registry

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container
    from docker.models.networks import Network

RUN_LABEL, NODES_LABEL, DRIVER_LABEL = "holdfast.run", "holdfast.label", "holdfast.driver"
DEFAULT_URL = "unix:///var/run/docker.sock"
HINT = "start dockerd, or use --backend local"
TIMEOUT_S = 60
END_S = 10
"""A killed container ends within this time, unless the engine is faulty."""
Result = TypeVar("Result")


class Miscounted(EnvironmentFailed):
    """The engine keeps a network that nothing uses: no process is left, the history is complete."""


class ContainerEngine:
    """Connections to the engine, one for each calling thread."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._threads = threading.local()

    @property
    def api(self) -> docker.APIClient:
        """The calling thread's docker.APIClient; EnvironmentFailed if no engine responds."""
        if not hasattr(self._threads, "api"):
            self._threads.api = connect(self._timeout_s)
        return self._threads.api


def url() -> str:
    """Address of the engine."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_URL


def precheck() -> str | None:
    """Why the engine cannot be used, judged by its socket and our packages only."""
    socket, package = _socket_problem(), extras.problem("docker")
    reasons = [socket, package and f"docker {package}"]
    return "; ".join(reason for reason in reasons if reason) or None


def _socket_problem() -> str | None:
    if not url().startswith("unix://"):
        return (
            f"docker: DOCKER_HOST is {url()}, but faults act on processes of this host; "
            "use an engine with a unix socket"
        )
    path = Path(url().removeprefix("unix://"))
    if not path.exists():
        return f"docker: no engine at {url()}; {HINT}"
    if not os.access(path, os.R_OK | os.W_OK):
        return f"docker: no permission to use the engine at {url()}; join its group, or {HINT}"
    return None


def connect(timeout_s: float) -> docker.DockerClient:
    """A docker.APIClient for one thread; EnvironmentFailed if no engine responds."""
    problem = precheck()
    if problem:
        raise EnvironmentFailed(problem)
    import docker

    try:
        return docker.APIClient(base_url=url(), version="auto", timeout=timeout_s)
    except (docker.errors.DockerException, OSError) as refused:
        raise EnvironmentFailed(f"docker: no engine at {url()}; {HINT}") from refused


def silent(within_s: float) -> str:
    """Why the engine does not respond within this time, and what is left then; "" if it does."""
    try:
        in_plain_words(lambda: connect(within_s).ping())
    except EnvironmentFailed as error:
        return (
            f"the container engine at {url()} does not respond: {error}; start it, then remove what"
            " the run left with `holdfast doctor --clean`"
        )
    return ""


def in_plain_words(work: Callable[..., Result], *args: object) -> Result:
    """Calls `work(*args)`; raises errors of the engine as EnvironmentFailed."""
    try:
        return work(*args)
    except EnvironmentFailed:
        raise
    except Exception as error:
        from docker.errors import DockerException

        if isinstance(error, DockerException | OSError):
            raise EnvironmentFailed(f"docker: {_said(error)}") from error
        raise


def labels(place: Place) -> dict[str, str]:
    """Labels of every container and network of a run, called by the run's driver."""
    return {
        RUN_LABEL: place.run_id,
        NODES_LABEL: place.label,
        DRIVER_LABEL: registry.mark(),
    }


def labelled(
    engine: ContainerEngine, wanted: Mapping[str, str]
) -> tuple[list[Container], list[Network]]:
    """Containers (running or not) and networks with all these labels, as the engine shows them.

    A label with an empty value matches every value.
    """
    terms = [f"{name}={value}" if value else name for name, value in wanted.items()]
    chosen = {"label": terms}
    return (
        engine.api.containers(all=True, filters=chosen),
        engine.api.networks(filters=chosen),
    )


def remove_container(engine: ContainerEngine, found: Mapping[str, Json]) -> None:
    """Kills and removes a container; one that is gone or being removed is no error.

    It has to have ended before it is removed, one after the other: the engine miscounts the
    endpoints of a network, and never releases it, if a container exits while it is removed by
    force, and in 1 of 86 cases if several end at once (0 of 64 one by one).
    """
    name = found["Id"]
    _unless_gone(lambda: engine.api.kill(name))
    _unless_gone(lambda: engine.api.wait(name, timeout=END_S))
    _unless_gone(lambda: engine.api.remove_container(name, v=True))


def remove_network(engine: ContainerEngine, found: Mapping[str, Json]) -> None:
    """Removes a network without containers; one that is gone is no error.

    Raises Miscounted if the engine has nothing on it and keeps it nevertheless.
    """
    from docker.errors import APIError

    try:
        _unless_gone(lambda: engine.api.remove_network(found["Id"]))
    except APIError as error:
        if "active endpoints" not in _said(error):
            raise
        if engine.api.inspect_network(found["Id"])["Containers"]:
            raise
        raise Miscounted(
            f"docker: the engine has no container on the network {found.get('Name', found['Id'])}"
            " but counts some, so it keeps it; restart dockerd, then `holdfast doctor --clean`"
        ) from error


def subnet_taken(error: Exception) -> bool:
    """Whether the engine rejected a network because its addresses are in use."""
    words = _said(error)
    return "overlaps" in words or "conflicts with" in words


def routes() -> list[ipaddress.IPv4Network]:
    """The networks that this host has routes to, without the default route."""
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        address, mask = (
            ipaddress.IPv4Address(int(fields[n], 16).to_bytes(4, "little")) for n in (1, 7)
        )
        if int(mask):
            found.append(ipaddress.IPv4Network(f"{address}/{mask}", strict=False))
    return found


def _unless_gone(act: Callable[[], object]) -> None:
    from docker.errors import APIError, NotFound

    try:
        act()
    except NotFound:
        return
    except APIError as error:
        if not any(words in _said(error) for words in ("already in progress", "is not running")):
            raise


def _said(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error).strip()
