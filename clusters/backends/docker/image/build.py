"""Builds the node image, and its base image if no image registry responds.

Standard library only: `python -m holdfast.clusters.backends.docker.image.build`, or `make
docker-image`. Nothing happens if the image of these exact ingredients exists. The package mirror is
the one that this host uses; its address is passed to the build, never stored in the sources.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from holdfast.harness.core.errors import EnvironmentFailed

NAME = "holdfast-node"
BASE = "debian:bookworm-slim"
RELEASE = "bookworm"
HERE = Path(__file__).resolve().parent
INGREDIENTS = ("Dockerfile", "policy-rc.d")
SYSTEMS = HERE.parents[2] / "systems"

PULL_S = 120
BUILD_S = 900
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
APT_SETTINGS = (
    "Acquire::http::",
    "Acquire::https::",
    "Acquire::ForceIPv",
    "Acquire::Check-",
    "Acquire::Retries",
)


def servers() -> str:
    """The packages of lock servers: those that the folders of systems name."""
    lines = (path.read_text().split() for path in SYSTEMS.glob("*/packages.txt"))
    return " ".join(sorted({package for packages in lines for package in packages}))


def tag() -> str:
    """The image that this version of Holdfast needs: its name and the hash of its ingredients."""
    digest = hashlib.sha256()
    for name in INGREDIENTS:
        digest.update((HERE / name).read_bytes())
    digest.update(servers().encode())
    return f"{NAME}:{digest.hexdigest()[:12]}"


def exists(image: str) -> bool:
    """Whether the engine has an image of this name."""
    return run("docker", "image", "inspect", image, check=False).returncode == 0


def build() -> bool:
    """Ensures that the image exists; True if it had to be built.

    Raises EnvironmentFailed if no engine responds, or a step of the build fails.
    """
    check_engine()
    wanted = tag()
    fresh = not exists(wanted)
    if fresh:
        if not exists(BASE):
            fetch_base()
        say(f"building {wanted}")
        with tempfile.TemporaryDirectory(prefix="holdfast-image-") as folder:
            context = Path(folder)
            for name in INGREDIENTS:
                shutil.copy(HERE / name, context / name)
            lend_apt(context / "host-apt")
            run(
                *("docker", "build", "--quiet", "--network", "host", "--tag", wanted),
                *("--build-arg", f"BASE={BASE}", "--build-arg", f"SERVERS={servers()}", folder),
                seconds=BUILD_S,
            )
    run("docker", "tag", wanted, f"{NAME}:latest")
    return fresh


def check_engine() -> None:
    """Raises EnvironmentFailed unless a `docker` client is installed and an engine responds."""
    if shutil.which("docker") is None:
        raise EnvironmentFailed("image: there is no `docker` command; install docker.io")
    answer = run("docker", "version", "--format", "{{.Server.Version}}", check=False, seconds=20)
    if answer.returncode:
        raise EnvironmentFailed("image: no container engine; start dockerd")


def fetch_base() -> None:
    """Pulls the base image, or builds one from the distribution's packages with debootstrap."""
    say(f"pulling {BASE}")
    try:
        if run("docker", "pull", "--quiet", BASE, check=False, seconds=PULL_S).returncode == 0:
            return
    except EnvironmentFailed:
        say(f"no response from the registry within {PULL_S} s")
    if shutil.which("debootstrap") is None:
        raise EnvironmentFailed(
            f"image: cannot pull {BASE}; install debootstrap to build it from packages"
        )
    say(f"no registry: building {BASE} with debootstrap")
    with tempfile.TemporaryDirectory(prefix="holdfast-base-") as folder:
        mirrors = [source.split()[1] for source in debian_sources() if f" {RELEASE} " in source]
        run("debootstrap", "--variant=minbase", RELEASE, folder, *mirrors[:1], seconds=BUILD_S)
        archive = subprocess.Popen(
            ["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        with archive:
            run("docker", "import", "-", BASE, stdin=archive.stdout, seconds=BUILD_S)
        if archive.returncode:
            raise EnvironmentFailed(f"image: tar of the new base ended with {archive.returncode}")


def lend_apt(folder: Path) -> None:
    """Writes this host's package sources, proxy and certificates to the build's folder.

    A host of another distribution provides no sources: the base image has its own.
    """
    folder.mkdir()
    inside = Path("/tmp") / folder.name
    lines = []
    sources = debian_sources()
    if sources:
        (folder / "sources.list").write_text("\n".join(sources) + "\n")
        lines += [
            f'Dir::Etc::sourcelist "{inside}/sources.list";',
            'Dir::Etc::sourceparts "-";',
        ]
    lines += [line for line in apt("config", "dump", "Acquire") if line.startswith(APT_SETTINGS)]
    if CERTIFICATES.exists():
        shutil.copy(CERTIFICATES, folder / CERTIFICATES.name)
        lines.append(f'Acquire::https::CaInfo "{inside}/{CERTIFICATES.name}";')
    (folder / "apt.conf").write_text("\n".join(lines) + "\n")


def debian_sources() -> list[str]:
    """This host's sources of the base's release, as lines of a sources.list."""
    wanted = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    found = apt("get", "indextargets", "--format", wanted, "Created-By: Packages")
    releases = {RELEASE, f"{RELEASE}-updates", f"{RELEASE}-security"}
    return [
        f"deb {uri} {release} main"
        for uri, release, component in (line.split() for line in found if line.count(" ") == 2)
        if release in releases and component == "main"
    ]


def apt(tool: str, *args: str) -> list[str]:
    """Lines that apt-get or apt-config prints; none without apt."""
    if shutil.which(f"apt-{tool}") is None:
        return []
    return run(f"apt-{tool}", *args, check=False).stdout.splitlines()


def run(
    *argv: str,
    check: bool = True,
    seconds: float = 60,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; EnvironmentFailed with its last output if it fails or hangs."""
    shown = " ".join(argv[:2])
    try:
        done = subprocess.run(
            argv, stdin=stdin, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailed(f"image: `{shown}` took more than {seconds} s") from late
    if check and done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise EnvironmentFailed("\n".join([f"image: `{shown}` failed:", *words]))
    return done


def say(line: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"image: {line}\n")


def main(argv: Sequence[str] = ()) -> int:
    """Builds the image, or with --tag prints its name; returns the exit code."""
    if "--tag" in argv:
        sys.stdout.write(tag() + "\n")
        return 0
    start = time.monotonic()
    try:
        fresh = build()
    except EnvironmentFailed as failed:
        say(str(failed))
        return failed.exit_code
    say(f"{tag()} " + (f"built in {time.monotonic() - start:.0f} s" if fresh else "is there"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
