"""Compose files: what a run takes from them, and one line for each thing that it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.catalogue import user_system
from holdfast.clusters.systems.composed.compose_file import read, waves
from holdfast.clusters.systems.composed.service import BuildOf, Volume
from holdfast.clusters.systems.composed.system import ComposedSystem, described
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Mount, Node, Place
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare

TABLE = {"client": "./client", "compose": "compose.yaml"}
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "compose"


def written(folder: Path, text: str) -> Path:
    path = folder / "compose.yaml"
    path.write_text(text)
    return path


def wrong(folder: Path, text: str) -> list[str]:
    with pytest.raises(UsageError) as refused:
        read(written(folder, text), {})
    return [line.partition("compose.yaml: ")[2] for line in refused.value.problems]


def test_the_sentinels_of_the_examples_are_five_services_in_two_orders() -> None:
    services = read(EXAMPLES / "redis-sentinel" / "compose.yaml", {})
    assert [service.name for service in services] == [
        *("redis-1", "redis-2"),
        *(f"sentinel-{n}" for n in (1, 2, 3)),
    ]
    first, second, sentinel = services[:3]
    assert first.image == "redis:7" and first.ports == (6379,)
    assert first.volumes == (Volume(at="/data", name="redis-1"),)
    assert first.health == ("redis-cli", "ping")
    assert second.health[:2] == ("/bin/sh", "-c") and second.after == ("redis-1",)
    assert sentinel.volumes == (Volume(at="/etc/sentinel.conf", file="sentinel.conf"),)
    assert sentinel.command[0] == "sh" and len(sentinel.command) == 3
    # A replica need not wait until its primary is ready, the sentinels do.
    assert waves(services) == [
        ([], ["redis-1"]),
        ([], ["redis-2"]),
        (["redis-1"], [f"sentinel-{n}" for n in (1, 2, 3)]),
    ]


def test_the_members_of_etcd_start_together_with_their_merged_environment() -> None:
    services = read(EXAMPLES / "etcd" / "compose.yaml", {"ETCD_IMAGE": "etcd:3"})
    assert waves(services) == [([], ["etcd1", "etcd2", "etcd3"])]
    assert {service.image for service in services} == {"etcd:3"}
    assert services[1].env["ETCD_NAME"] == "etcd2"
    assert services[1].env["ETCD_DATA_DIR"] == "/etcd-data"


def test_variables_come_from_the_environment_then_from_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB='file'\n# C=no\n")
    text = """
services:
  one:
    image: ${A}-$B-${C:-none}-${D-empty}
    command: ["echo", "$$HOME"]
"""
    (service,) = read(written(tmp_path, text), {"A": "outside", "D": ""})
    assert service.image == "outside-file-none-" and service.command == ("echo", "$HOME")


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("privileged: true", "key 'privileged' is not supported: expected one of image, build"),
        ("environment: [HOME]", "environment: HOME has no value: write HOME=${HOME}"),
        ("environment: {ON: yes}", "environment: True: expected a text: write it in quotes"),
        ("volumes: ['./a:/a']", "a run does not write to your files: add :ro"),
        ("volumes: ['/etc/hosts:/etc/hosts:ro']", "only files below the folder of the compose"),
        ("volumes: ['../a:/a:ro']", "only files below the folder of the compose file"),
        ("volumes: ['kept:/a']", "volume kept is not declared in volumes"),
        ("depends_on: [two]", "depends_on: no service two"),
        ("depends_on: [one]", "depends_on has a cycle: one"),
        (
            "depends_on: {two: {condition: service_completed_successfully}}",
            "condition 'service_completed_successfully': expected service_started or",
        ),
        ("healthcheck: {interval: 1s}", "healthcheck: test: expected a command line"),
        ("ports: ['7000-7005:7000-7005']", "ports: 7000-7005:7000-7005: expected a port; ranges"),
        ("networks: {a: {ipv4_address: 10.0.0.1}}", "a: key 'ipv4_address' is not supported"),
        ("command: ${MISSING}", "${MISSING} has no value: set MISSING, or write"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(
    tmp_path: Path, field: str, line: str
) -> None:
    (problem,) = wrong(tmp_path, f"services:\n  one:\n    image: a\n    {field}\n")[:1]
    assert line in problem


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    text = """
secrets: {a: {file: a}}
services:
  one: {build: {context: ., ssh: x}, networks: [a]}
  two: {image: b, volumes: ["d:/d"], networks: [b]}
  three: {image: b, volumes: ["d:/d"], networks: [a, b]}
volumes: {d: {driver_opts: {type: nfs}}}
"""
    lines = wrong(tmp_path, text)
    for part in (
        "key 'secrets' is not supported",
        "service one: build: key 'ssh' is not supported",
        "volume d: only a plain volume is supported",
        "volume d: two and three share it",
        "services one and two have no network in common",
    ):
        assert [line for line in lines if part in line], (part, lines)


def test_a_node_gets_the_service_its_files_and_folders_of_the_run(tmp_path: Path) -> None:
    text = """
services:
  a:
    build: {context: image, args: {V: 1}}
    entrypoint: [serve]
    command: --port 1
    hostname: first
    container_name: the-first
    user: "7"
    working_dir: /w
    tmpfs: /run
    expose: ["1"]
    volumes: ["kept:/kept", "./a.conf:/a.conf:ro", "/own"]
volumes: {kept: }
"""
    written(tmp_path, text)
    made = ComposedSystem(described(TABLE, tmp_path, "x"))
    assert made.server_names == {"n1": ("first", "a", "the-first")}
    assert made.ports == (1,) and made.files == ("a.conf",) and made.backends == ("docker",)
    place = Place(run_id="r", run_dir=tmp_path / "run", shared=(), label="r")
    node = Node(name="n1", role="server", address="10.0.0.2")
    image = made.command(node, [node], place, {}).image
    assert image is not None and image.build is not None
    assert image.build.folder == tmp_path / "image" and image.build.args == {"V": "1"}
    data, program = place.run_dir / "data" / "n1", place.run_dir / "program"
    assert image.mounts == (
        Mount(source=data / "kept", at="/kept", writable=True),
        Mount(source=program / "a.conf", at="/a.conf"),
        Mount(source=data / "volume-2", at="/own", writable=True),
    )
    assert (image.entrypoint, image.user, image.folder) == (("serve",), "7", "/w")
    assert image.tmpfs == ("/run",) and image.own_rights
    # Open to the service's user, whoever that is, and to nobody else of this host.
    assert (data / "kept").stat().st_mode & 0o777 == 0o777 and data.stat().st_mode & 0o777 == 0o700
    assert "n1 is a" in made.promises({}).sheet["evidence"]
    assert BuildOf(folder="image", args={"V": "1"}) == made.services[0].build


def example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(EXAMPLES / "redis-sentinel", folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    return folder


def test_faults_aim_at_services_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example(tmp_path, monkeypatch)
    aimed = {"target": "redis-2+sentinel-3", "peer": "redis-1", "every": "1s", "for": "200ms"}
    plan = Plan(
        system="lock.toml",
        backend="docker",
        nodes=0,
        nemeses=[("slow-links", aimed)],
        time_ns=5 * 10**9,
    )
    found = prepare.prepared(plan)
    assert found.servers == 5
    assert {fault.target for fault in found.plan.faults} == {"n2+n5"}
    assert {fault.params["peer"] for fault in found.plan.faults} == {"n1"}
    with pytest.raises(UsageError, match="redis-9"):
        prepare.prepared(
            Plan(system="lock.toml", backend="docker", nemeses=[("kill", {"target": "redis-9"})])
        )


def test_services_named_as_roles_and_other_backends_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example(tmp_path, monkeypatch)
    with pytest.raises(
        UsageError, match="services of a compose file, in containers: use --backend"
    ):
        prepare.prepared(Plan(system="lock.toml", backend="local"))
    text = (folder / "compose.yaml").read_text()
    (folder / "compose.yaml").write_text(text.replace("sentinel-3:", "leader:"))
    with pytest.raises(UsageError, match="a target named leader is another: rename it"):
        prepare.prepared(Plan(system="lock.toml", backend="docker"))


def test_the_identity_is_of_the_services_and_of_the_files_that_they_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example(tmp_path, monkeypatch)
    before = user_system.identity("lock.toml"), user_system.fingerprint(["lock.toml"])
    (folder / "sentinel.conf").write_text("port 1\n")
    after = user_system.identity("lock.toml"), user_system.fingerprint(["lock.toml"])
    assert before[0] != after[0] and before[1] != after[1]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("compose.yaml", "lock.toml", "lock.py", "sentinel.conf"):
        shutil.copy(folder / name, elsewhere)
    assert user_system.identity(str(elsewhere / "lock.toml")) == after[0]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"image": "a", "nodes": 2}, "image, nodes: the compose file describes the servers"),
        ({"start": "in turn"}, "start: depends_on of the services says who starts first"),
    ],
)
def test_a_table_leaves_servers_to_its_compose_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, object], line: str
) -> None:
    folder = example(tmp_path, monkeypatch)
    added = "".join(f"{name} = {value!r}\n" for name, value in more.items())
    text = (folder / "lock.toml").read_text()
    (folder / "lock.toml").write_text(text.replace("[system]\n", f"[system]\n{added}"))
    with pytest.raises(UsageError) as refused:
        user_system.row("lock.toml")
    assert line in str(refused.value)
