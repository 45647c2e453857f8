"""The libraries that can be tested: one row and one adapter file each."""

from __future__ import annotations

from dataclasses import dataclass

_S = "holdfast.clusters.systems"
REDIS, ETCD = f"{_S}.redis.system:SYSTEM", f"{_S}.etcd.system:SYSTEM"
FIVE_REDIS = f"{_S}.redlock.system:SYSTEM"
ZOOKEEPER = f"{_S}.zookeeper.system:SYSTEM"
POSTGRES = f"{_S}.postgres.advisory.system:SYSTEM"
KUBERNETES = "holdfast.clusters.systems.kubernetes.system:SYSTEM"
DYNAMODB = "holdfast.clusters.systems.dynamodb.system:SYSTEM"


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryRow:
    """A package, the system whose servers it uses, and further packages.

    adapters  api -> module here whose `Subject` drives it; the first is the default
    version   default
    beside    pins that it imports; the user's pin of such a package takes precedence
    built     packages that are published as source only
    bound     what ends a hold besides a release, as `Promises.bound`
    proves    whether an ok renewal, and an ok release, prove that the caller owned until then
    served    its servers are packages too, listed in `beside`
    tells     it reports whether the lock is still held, and its user may rely on that
    asks      options of the servers that it requires
    elects    it renews by itself until it says that the caller leads no more, which a paused caller
              hears late
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
    served: bool = False
    tells: bool = False
    asks: tuple[tuple[str, str], ...] = ()
    elects: bool = False


_TIMEOUT = "async-timeout==5.0.1"
_PSYCOPG = (
    "psycopg==3.3.9", "psycopg-binary==3.3.9", "typing_extensions==4.16.0", "greenlet==3.5.6",
)  # fmt: skip
_AIOHTTP = (
    "aiohttp==3.14.5", "aiohappyeyeballs==2.7.1", "aiohttp-retry==2.9.1", "aiosignal==1.4.0",
    "attrs==26.1.0", "frozenlist==1.8.0", "multidict==7.2.1", "propcache==0.5.4",
    "typing_extensions==4.16.0", "yarl==1.25.1",
)  # fmt: skip
_PYDANTIC = (
    "pydantic==2.14.3", "pydantic_core==2.50.4", "annotated-types==0.8.0",
    "typing-inspection==0.4.5",
)  # fmt: skip
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
        adapters={"sync": "valkey_py", "asyncio": "valkey_asyncio"},
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
    "coredis": LibraryRow(
        says="an asyncio lock over its own Redis client",
        system="redis",
        servers=REDIS,
        adapters={"asyncio": "coredis_lock"},
        version="6.9.0",
        beside=(
            "anyio==4.16.0", "beartype==0.23.1", "Deprecated==1.3.1", "exceptiongroup==1.3.1",
            "packaging==26.3", "typing_extensions==4.16.0", "idna==3.20", "wrapt==2.5.2",
        ),
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
        says="one API for several servers; here Redis",
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
        says="Redlock over several Redis servers, the first Python implementation",
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
        proves=(True, False),
    ),
    "aioredlock": LibraryRow(
        says="Redlock over several Redis servers, asyncio, on the first aioredis",
        system="redlock",
        servers=FIVE_REDIS,
        adapters={"asyncio": "aioredlock_asyncio"},
        version="0.7.3",
        beside=("aioredis==1.3.1", "async-timeout==5.0.1", "attrs==26.1.0", "hiredis==3.5.0"),
        proves=(True, False),
    ),
    "python-etcd": LibraryRow(
        says="a lock by ordered keys, over etcd's v2 API",
        system="etcd",
        servers=ETCD,
        adapters={"sync": "python_etcd"},
        version="0.4.5",
        beside=("urllib3==1.26.20", "dnspython==2.7.0"),
        built=("python-etcd",),
        proves=(False, False),
        asks=(("v2", "yes"),),
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
    "etcd3": LibraryRow(
        says="python-etcd3's lock by a transaction over gRPC",
        system="etcd",
        servers=ETCD,
        adapters={"sync": "etcd3_grpc"},
        version="0.12.0",
        beside=(
            "protobuf==3.20.3", "tenacity==6.3.1", "grpcio==1.85.1", "six==1.17.0",
            "typing_extensions==4.16.0",
        ),
        built=("etcd3",),
        proves=(False, True),
    ),
    "kazoo": LibraryRow(
        says="kazoo's Lock; its is_acquired is taken as the truth",
        system="zookeeper",
        servers=ZOOKEEPER,
        adapters={"sync": "kazoo_lock"},
        version="2.11.0",
        bound="session",
        proves=(False, False),
        tells=True,
    ),
    "psycopg": LibraryRow(
        says="a session's advisory lock in the one connection that a `with` block opened",
        system="postgres-advisory",
        servers=POSTGRES,
        adapters={"sync": "psycopg_sync"},
        version="3.3.9",
        beside=("psycopg-binary==3.3.9", "typing_extensions==4.16.0"),
        bound="connection",
        proves=(True, True),
        tells=True,
    ),
    "sqlalchemy-dlock": LibraryRow(
        says="advisory locks through SQLAlchemy; `locked` is taken as the truth",
        system="postgres-advisory",
        servers=POSTGRES,
        adapters={"sync": "sqlalchemy_dlock_pg"},
        version="0.9.0",
        beside=(*_PSYCOPG, "SQLAlchemy==2.1.9"),
        bound="connection",
        proves=(False, False),
        tells=True,
    ),
    "SQLAlchemy": LibraryRow(
        says="a session's advisory lock in a connection of a pool",
        system="postgres-advisory",
        servers=POSTGRES,
        adapters={"sync": "sqlalchemy_pool"},
        version="2.1.9",
        beside=_PSYCOPG,
        bound="connection",
        proves=(False, False),
    ),
    "tooz": LibraryRow(
        says="one API for several servers; here PostgreSQL",
        system="postgres-advisory",
        servers=POSTGRES,
        adapters={"sync": "tooz_pg"},
        version="9.1.0",
        beside=(
            "psycopg2-binary==2.9.13", "fasteners==0.20", "futurist==3.5.0", "msgpack==1.2.4",
            "oslo.serialization==5.11.0", "oslo.utils==10.2.0", "stevedore==5.10.0",
            "tenacity==9.2.1", "voluptuous==0.16.0", "debtcollector==3.1.0", "iso8601==2.1.0",
            "netaddr==1.3.0", "oslo.i18n==6.9.0", "packaging==26.3", "pbr==7.1.3",
            "psutil==7.2.2", "pyparsing==3.3.3", "PyYAML==6.0.3", "wrapt==2.5.2",
        ),
        bound="connection",
        proves=(False, False),
        tells=True,
    ),
    "python-dynamodb-lock": LibraryRow(
        says="a record with heartbeats from its own thread",
        system="dynamodb",
        servers=DYNAMODB,
        adapters={"sync": "dynamodb_lock"},
        version="0.9.1",
        served=True,
    ),
    "python-dynamodb-lock-whatnick": LibraryRow(
        says="the same; waiters compare the wall clock with an expiry one hour ahead",
        system="dynamodb",
        servers=DYNAMODB,
        adapters={"sync": "dynamodb_lock"},
        version="0.9.3",
        served=True,
    ),
    "kubernetes": LibraryRow(
        says="leader election on a Lease, blocking; its end is taken as the truth",
        system="kubernetes",
        servers=KUBERNETES,
        adapters={"sync": "kubernetes_election"},
        version="37.0.2",
        beside=(
            "certifi==2026.10.18", "charset-normalizer==3.5.2", "durationpy==0.11", "idna==3.20",
            "oauthlib==4.0.1", "python-dateutil==2.9.0.post0", "PyYAML==6.0.3",
            "requests==2.34.2", "requests-oauthlib==2.0.0", "six==1.17.0", "urllib3==2.8.0",
            "websocket-client==1.9.2", *_AIOHTTP, *_PYDANTIC,
        ),
        bound="none",
        proves=(False, False),
        tells=True,
        elects=True,
    ),
    "kubernetes_asyncio": LibraryRow(
        says="leader election on a Lease, asyncio; its end is taken as the truth",
        system="kubernetes",
        servers=KUBERNETES,
        adapters={"asyncio": "kubernetes_election_asyncio"},
        version="36.1.0",
        beside=(
            "certifi==2026.10.18", "idna==3.20", "python-dateutil==2.9.0.post0", "PyYAML==6.0.3",
            "six==1.17.0", "urllib3==2.8.0", *_AIOHTTP,
        ),
        bound="none",
        proves=(False, False),
        tells=True,
        elects=True,
    ),
    "celery-redbeat": LibraryRow(
        says="the lock that allows one celery beat at a time",
        system="redis",
        servers=REDIS,
        adapters={"sync": "redbeat"},
        version="2.0.0",
        beside=(
            "redis==4.6.0", _TIMEOUT, "celery==5.2.7", "billiard==3.6.4.0", "click==8.1.8",
            "click-didyoumean==0.3.1", "click-plugins==1.1.1.2", "click-repl==0.3.0",
            "kombu==5.2.4", "vine==5.1.0", "pytz==2026.6", "python-dateutil==2.9.0.post0",
            "six==1.17.0", "tenacity==9.2.1", "amqp==5.4.2", "prompt_toolkit==3.0.53",
            "typing_extensions==4.16.0", "wcwidth==0.9.4", "packaging==26.3",
        ),
        built=("celery-redbeat",),
        proves=(True, False),
    ),
}  # fmt: skip
