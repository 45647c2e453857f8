"""Real bugs reproduced in published packages: locks on servers other than Redis."""

from __future__ import annotations

from holdfast.catalogue.rows import NEW, Finding

_HANG_UP = (
    "--workload renewal --lease 1s --set hold_leases=40 --set wait_ms=1000 --clients 3 --nemesis"
    " hang-up:every=16s,for=100ms,target=holder --time 30s"
)
_EXPIRY = f"python_dynamodb_lock PR 366 requested that expiry; the violation: {NEW}"
_CUT_OFF = (
    "--workload leader-election --set wait_ms=30000 --lease 6s --clients 3"
    " --nemesis black-hole:target=holder,every=19s,for=17s,count=1 --time 20s"
)
ELSEWHERE: dict[str, Finding] = {
    "etcd3gw-with": Finding(
        package="etcd3gw==2.6.0",
        breaks="mutual-exclusion",
        says="`with` ignores the result of acquire and always runs its body",
        command="--system etcd --library etcd3gw==2.6.0 --set way=with --time 5s",
        seen=(3, 3),
        cited="python-etcd3#1314 (the same in another package)",
    ),
    "etcd3gw-with-latest": Finding(
        package="etcd3gw==2.7.0",
        breaks="mutual-exclusion",
        says="the same bug in the newest release",
        command="--system etcd --library etcd3gw==2.7.0 --set way=with --time 5s",
        seen=(3, 3),
        cited=NEW,
    ),
    "aetcd-with": Finding(
        package="aetcd==1.0.0",
        breaks="mutual-exclusion",
        says="`async with` silently gives up after 10 s and runs its body",
        command="--system etcd --library aetcd==1.0.0 --set way=with --workload renewal --lease 15s"
        " --set hold_leases=1 --set wait_ms=10000 --clients 2 --time 26s",
        seen=(1, 1),
        cited="python-etcd3#599, #1314 (the same in another package)",
    ),
    "etcd3-py-99": Finding(
        package="etcd3-py==0.1.6",
        breaks="mutual-exclusion",
        says="the transaction of acquire overwrites the key: every client that saw it free holds",
        command="--system etcd --library etcd3-py==0.1.6 --time 6s",
        seen=(3, 3),
        cited="etcd3-py#99",
    ),
    "python-etcd-228": Finding(
        package="python-etcd==0.4.5",
        breaks="orphan-freedom",
        says="a rejected try leaves its key in the queue: without a TTL no later request succeeds",
        command="--system etcd --library python-etcd==0.4.5 --set expire=none --workload try-lock"
        " --clients 3 --time 8s",
        seen=(3, 3),
        cited="python-etcd#228",
    ),
    "python-etcd-268": Finding(
        package="python-etcd==0.4.5",
        breaks="no-hung-request",
        says="an acquire keeps watching after its timeout, until the holder releases",
        command="--system etcd --library python-etcd==0.4.5 --set expire=none --workload renewal"
        " --lease 2s --set hold_leases=12 --set wait_ms=2000 --clients 2 --time 26s",
        seen=(3, 3),
        cited="python-etcd#268, #254",
    ),
    "etcd-11456": Finding(
        package="etcd 3.4.23 (server)",
        breaks="mutual-exclusion",
        says="the Lock call returns ok to waiters whose leases expired in the queue",
        command="--system etcd --set lock=rpc --set waiting=idle --workload renewal --set"
        " wait_ms=20000 --set hold_leases=2 --lease 2s --time 20s",
        seen=(4, 5),
        cited="etcd#11456",
    ),
    "etcd-15247": Finding(
        package="etcd 3.4.23 (server)",
        breaks="mutual-exclusion",
        says="a leader that was paused and resumed revokes leases that were renewed at its"
        " successor",
        command="--system etcd --clients 8 --locks 4 --workload renewal --nemesis"
        " pause:target=leader,every=22s,for=12s --lease 8s --time 22s",
        seen=(3, 10),
        cited="etcd#15247",
    ),
    "kazoo-732": Finding(
        package="kazoo==2.11.0",
        breaks="orphan-freedom",
        says="a rejected try leaves its znode in the queue if the connection breaks while kazoo"
        " cleans up: no request is granted as long as that session lives",
        command="--system zookeeper --workload try-lock --clients 8 --set think_ms=1 --nemesis"
        " kill:target=follower,every=2s,for=500ms --lease 6s --time 24s",
        seen=(2, 3),
        cited="kazoo#732",
    ),
    "nats-4320": Finding(
        package="nats-server 2.9.10 (three servers)",
        breaks="mutual-exclusion",
        says="two conditional writes on the same revision are both accepted while they are being"
        " replicated: a key is created twice",
        command="--system nats-kv --nodes 3 --clients 4 --time 12s",
        seen=(3, 3),
        cited="nats-server#4320",
    ),
    "etcd3-with": Finding(
        package="etcd3==0.12.0",
        breaks="mutual-exclusion",
        says="`with` silently gives up after 10 s and runs its body",
        command="--system etcd --library etcd3==0.12.0 --set way=with --workload renewal"
        " --lease 15s --set hold_leases=1 --set wait_ms=10000 --clients 2 --time 26s",
        seen=(3, 3),
        cited="python-etcd3#599, #1314",
    ),
    "kazoo-2": Finding(
        package="kazoo==2.11.0",
        breaks="loss-notice",
        says="is_acquired stays true after the session expired and another client owns the lock,"
        " even after a reconnect",
        command="--system zookeeper --library kazoo==2.11.0 --workload renewal --lease 2s --set"
        " hold_leases=40 --set wait_ms=1000 --clients 3 --nemesis"
        " partition:every=20s,for=8s,shape=client,target=holder --time 38s",
        seen=(3, 3),
        cited="kazoo#2",
    ),
    "sqlalchemy-dlock-terminated": Finding(
        package="sqlalchemy-dlock==0.9.0",
        breaks="loss-notice",
        says="the server ends the session and grants the lock to another; `locked` stays true",
        command=f"--system postgres-advisory --library sqlalchemy-dlock==0.9.0 {_HANG_UP}",
        seen=(3, 3),
        cited=NEW,
    ),
    "tooz-terminated": Finding(
        package="tooz==9.1.0",
        breaks="loss-notice",
        says="the server ends the session and grants the lock to another; `acquired` stays true",
        command=f"--system postgres-advisory --library tooz==9.1.0 {_HANG_UP}",
        seen=(3, 3),
        cited=NEW,
    ),
    "sqlalchemy-pool": Finding(
        package="SQLAlchemy==2.1.9",
        breaks="orphan-freedom",
        says="closing a connection returns it to the pool together with its session-level advisory"
        " lock, which stays held",
        command="--system postgres-advisory --library SQLAlchemy==2.1.9 --workload try-lock"
        " --time 8s",
        seen=(3, 3),
        cited="npgsql#5592 (the same class of bug in another package)",
    ),
    "pgbouncer-102": Finding(
        package="pgbouncer 1.18 (server)",
        breaks="mutual-exclusion",
        says="transaction pooling assigns one session to two clients, which both get its advisory"
        " lock; --set scope=transaction avoids the bug",
        command="--system postgres-advisory --set via=pgbouncer --set idle=none --time 6s",
        seen=(3, 3),
        cited="pgbouncer#102",
    ),
    "kubernetes-black-hole": Finding(
        package="kubernetes==37.0.2",
        breaks="mutual-exclusion",
        says="LeaderElection sends requests without a timeout, so a leader whose packets are"
        " dropped never reaches its renew deadline: it leads beside its successor, and"
        " onstopped_leading is not called",
        command=f"--system kubernetes --library kubernetes==37.0.2 {_CUT_OFF}",
        seen=(5, 5),
        cited=f"kubernetes#65090 (the same in client-go, fixed in 2018); here {NEW}",
    ),
    "kubernetes-asyncio-black-hole": Finding(
        package="kubernetes_asyncio==36.1.0",
        breaks="mutual-exclusion",
        says="the same bug; requests time out after 300 s only, the default of aiohttp",
        command=f"--system kubernetes --library kubernetes_asyncio==36.1.0 {_CUT_OFF}",
        seen=(5, 5),
        cited=f"kubernetes#65090 (the same in client-go, fixed in 2018); here {NEW}",
    ),
    "dynamodb-wall-clock": Finding(
        package="python-dynamodb-lock-whatnick==0.9.3",
        breaks="mutual-exclusion",
        says="a waiter compares the wall clock with an expiry one hour ahead instead of waiting for"
        " missing heartbeats: a client whose clock is two hours ahead takes a held lock",
        command="--system dynamodb --library python-dynamodb-lock-whatnick==0.9.3 --lease 2s"
        " --clients 3 --nemesis clock:step=120m,target=c1,every=4s,for=3s --time 10s",
        seen=(2, 2),
        cited=_EXPIRY,
    ),
    "dynamodb-orphan": Finding(
        package="python-dynamodb-lock-whatnick==0.9.3",
        breaks="orphan-freedom",
        says="for the same reason a dead owner's lock is not granted for an hour, whatever its"
        " lease",
        command="--system dynamodb --library python-dynamodb-lock-whatnick==0.9.3 --lease 2s"
        " --clients 3 --nemesis kill:target=holder,every=9s,for=500ms --time 10s",
        seen=(1, 2),
        cited=_EXPIRY,
    ),
}
