"""The libraries that can be put under test: one row and one adapter file each."""

from __future__ import annotations

from dataclasses import dataclass

_S = "holdfast.clusters.systems"
REDIS, ETCD = f"{_S}.redis.system:SYSTEM", f"{_S}.etcd.system:SYSTEM"
FIVE_REDIS = f"{_S}.redlock.system:SYSTEM"


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryRow:
    """A package, the system whose servers it talks to, and what stands beside it.

    adapters  api -> module here whose `Subject` drives it; the first is the default
    version   taken where the user names none
    beside    pins that it imports; a `beside` package that the user pins too is the user's
    built     packages that are published as source only
    bound     what ends a hold besides a release, as `Promises.bound`
    proves    whether an ok renewal, and an ok release, show that the caller owned till then
    """

    says: str
    system: str
    servers: str
    adapters: dict[str, str]
    version: str
    beside: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    bound: str = "lease"
    proves: tuple[bool, bool] = (True, True)


_TIMEOUT = "async-timeout==5.0.1"
LIBRARIES: dict[str, LibraryRow] = {
    "redis": LibraryRow(
        says="redis-py's Lock, blocking and asyncio",
        system="redis",
        servers=REDIS,
        adapters={"sync": "redis_py", "asyncio": "redis_py_asyncio"},
        version="8.1.0",
        beside=(_TIMEOUT,),
    ),
    "valkey": LibraryRow(
        says="valkey-py's Lock, which began as redis-py's",
        system="redis",
        servers=REDIS,
        adapters={"sync": "valkey_py"},
        version="6.2.0",
        beside=(_TIMEOUT,),
    ),
    "aetcd": LibraryRow(
        says="an asyncio lock by a transaction over gRPC",
        system="etcd",
        servers=ETCD,
        adapters={"asyncio": "aetcd_asyncio"},
        version="1.0.0",
        beside=("grpcio==1.85.1", "protobuf==7.36.2", "typing_extensions==4.16.0"),
        proves=(False, True),
    ),
    "python-redis-lock": LibraryRow(
        says="a Redis lock that renews itself in a thread",
        system="redis",
        servers=REDIS,
        adapters={"sync": "python_redis_lock"},
        version="4.0.1",
        beside=("redis==5.0.8", _TIMEOUT),
    ),
    "sherlock": LibraryRow(
        says="one interface over several servers; here over Redis",
        system="redis",
        servers=REDIS,
        adapters={"sync": "sherlock_redis"},
        version="0.4.1",
        beside=("redis==5.0.8", _TIMEOUT, "filelock==3.20.0", "typing_extensions==4.16.0"),
    ),
    "pottery": LibraryRow(
        says="Redlock over several Redis servers, blocking and asyncio",
        system="redlock",
        servers=FIVE_REDIS,
        adapters={"sync": "pottery_sync", "asyncio": "pottery_asyncio"},
        version="3.0.1",
        beside=("redis==7.1.0", _TIMEOUT, "mmh3==5.2.0", "typing_extensions==4.16.0"),
    ),
    "redlock-py": LibraryRow(
        says="Redlock over several Redis servers, the first one in Python",
        system="redlock",
        servers=FIVE_REDIS,
        adapters={"sync": "redlock_py"},
        version="1.0.8",
        beside=("redis==5.0.8", _TIMEOUT),
        built=("redlock-py",),
        proves=(True, False),
    ),
    "redlock-ng": LibraryRow(
        says="Redlock over several Redis servers",
        system="redlock",
        servers=FIVE_REDIS,
        adapters={"sync": "redlock_ng"},
        version="2.0.4",
        beside=(
            "redis==5.3.1", _TIMEOUT, "pydantic==2.14.3", "pydantic_core==2.50.4",
            "annotated-types==0.8.0", "PyJWT==2.15.1", "typing_extensions==4.16.0",
            "typing-inspection==0.4.5",
        ),
    ),
    "etcd3-py": LibraryRow(
        says="a lock by a transaction over etcd's JSON gateway",
        system="etcd",
        servers=ETCD,
        adapters={"sync": "etcd3_py"},
        version="0.1.6",
        beside=(
            "requests==2.34.2", "urllib3==2.8.0", "idna==3.20", "certifi==2026.10.18",
            "charset-normalizer==3.5.2", "six==1.17.0", "semantic_version==2.10.0",
            "aiohttp==3.9.5", "aiosignal==1.3.1", "frozenlist==1.4.1", "multidict==6.0.5",
            "yarl==1.9.4", "attrs==23.2.0",
        ),
        proves=(True, False),
    ),
    "etcd3gw": LibraryRow(
        says="a lock by a transaction over etcd's JSON gateway",
        system="etcd",
        servers=ETCD,
        adapters={"sync": "etcd3gw"},
        version="2.7.0",
        beside=(
            "requests==2.34.2", "urllib3==2.8.0", "idna==3.20", "certifi==2026.10.18",
            "charset-normalizer==3.5.2", "futurist==3.2.1", "pbr==7.0.1", "debtcollector==3.0.0",
            "wrapt==1.17.3",
        ),
        proves=(False, True),
    ),
}  # fmt: skip
