"""Real bugs reproduced in published packages: locks on Redis.

No command contains knowledge of the bug: each consists of a system, a workload, options that a
user of the package may choose, and a nemesis of the catalogue.
"""

from __future__ import annotations

from holdfast.catalogue.rows import NEW, Finding

_TRY = "--workload try-lock"
_SLOW_CANCEL = (
    "--set api=asyncio --workload try-lock --set gap_ms=400 --lease 1s --clients 3 --nemesis"
    " delay:every=3s,for=2500ms,by=40ms,target=clients,"
    "cancel:every=500ms,for=400ms,after=20ms,count=1,target=clients --time 12s"
)
_DELAY = "delay:every=4s,for=3500ms,by=40ms,target=clients"
_CANCELLED_ACQUIRE = (
    f"--set expire=none {_TRY} --clients 3 --nemesis {_DELAY},"
    "cancel:every=1s,for=500ms,after=20ms,count=1 --time 10s"
)
_CANCELLED_RELEASE = (
    f"--set expire=none {_TRY} --set gap_ms=500 --clients 3 --nemesis {_DELAY},"
    "hang-up:every=4s,for=3500ms,target=holder,"
    "cancel:every=4s,for=3500ms,after=20ms,count=1,target=holder --time 12s"
)
_FLICKER = (
    f"--lease 1s {_TRY} --clients 3 --set gap_ms=600 --nemesis"
    " clock:target=clients,step=-5s,strobe=20ms,every=10s,for=8s --time 12s"
)
ON_REDIS: dict[str, Finding] = {
    "sherlock-no-expire": Finding(
        package="sherlock==0.4.1",
        breaks="mutual-exclusion",
        says="RedisLock without an expiry deletes the key it has just set: every client holds",
        command="--system redis --library sherlock==0.4.1 --set expire=none --time 4s",
        seen=(3, 3),
        cited="sherlock#37 (2019)",
        quick=True,
    ),
    "sherlock-fork": Finding(
        package="sherlock==0.4.1",
        breaks="mutual-exclusion",
        says="the finalizer of a lock object releases the lock, also in a forked child while the"
        " parent holds it: when the child exits another client is granted the lock",
        command="--system redis --library sherlock==0.4.1 --workload renewal --lease 2s --set"
        " hold_leases=2 --set wait_ms=6000 --clients 3 --nemesis fork:every=4s,for=3s --time 12s",
        seen=(3, 3),
        cited=f"filelock#634 (the same class of bug in another package); here {NEW}",
    ),
    "redis-py-cve-2023-28858": Finding(
        package="redis==4.5.1",
        breaks="mutual-exclusion",
        says="a cancelled command leaves its reply unread; the next SET NX reads it as its own",
        command=f"--system redis --library redis==4.5.1 {_SLOW_CANCEL}",
        seen=(3, 3),
        cited="CVE-2023-28858, CVE-2023-28859",
        fixed="redis==8.1.0",
        clean=(0, 3),
    ),
    "redis-py-4279": Finding(
        package="redis==8.1.0",
        breaks="mutual-exclusion",
        says="reacquire of a lock with timeout=0 deletes the key and returns True",
        command="--system redis --library redis==8.1.0 --set expire=zero --time 4s",
        seen=(3, 3),
        cited="redis-py#4279",
        quick=True,
    ),
    "valkey-py-reacquire": Finding(
        package="valkey==6.2.0",
        breaks="mutual-exclusion",
        says="the same bug: reacquire with timeout=0 deletes the key and returns True",
        command="--system redis --library valkey==6.2.0 --set expire=zero --time 4s",
        seen=(3, 3),
        cited="redis-py#4279 (the same in another package)",
    ),
    "redis-py-retry": Finding(
        package="redis==8.1.0",
        breaks="orphan-freedom",
        says="the library retries a SET NX whose reply was lost, finds its own key and returns not"
        " acquired; the key stays",
        command="--system redis --library redis==8.1.0 --set expire=none"
        f" {_TRY} --clients 2 --nemesis reply-loss:every=500ms,for=300ms --time 12s",
        seen=(4, 4),
        cited=NEW,
    ),
    "redis-py-cancelled-acquire": Finding(
        package="redis==8.1.0",
        breaks="orphan-freedom",
        says="an asyncio acquire cancelled after its SET was sent drops its token: the key stays,"
        " and release reports that the lock is not held",
        command="--system redis --library redis==8.1.0 --set api=asyncio --set expire=none"
        f" {_TRY} --clients 3 --nemesis delay:every=4s,for=3500ms,by=40ms,target=clients,"
        "cancel:every=1s,for=500ms,after=20ms,count=1 --time 10s",
        seen=(3, 4),
        cited=NEW,
    ),
    "aioredlock-hung-master": Finding(
        package="aioredlock==0.7.3",
        breaks="no-hung-request",
        says="it waits for every master without a timeout: one hung master of five blocks a try",
        command=f"--system redlock --library aioredlock==0.7.3 {_TRY}"
        " --nemesis pause:target=one,every=20s,for=16s --time 22s",
        seen=(3, 3),
        cited=NEW,
    ),
    "python-redis-lock-renewal": Finding(
        package="python-redis-lock==4.0.1",
        breaks="mutual-exclusion",
        says="one connection reset ends the renewal thread; the holder is never notified, and"
        " another client is granted the lock when the lease expires",
        command="--system redis --library python-redis-lock==4.0.1 --set renew=library --workload"
        " renewal --lease 2s --clients 3 --nemesis reset:every=4s,for=3s,count=1,target=holder"
        " --time 12s",
        seen=(3, 3),
        cited="python-redis-lock#85, #93",
    ),
    "pottery-hung-master": Finding(
        package="pottery==3.0.1",
        breaks="no-hung-request",
        says="AIORedlock waits for every master: one hung master of five blocks a try",
        command=f"--system redlock --library pottery==3.0.1 --set api=asyncio {_TRY}"
        " --nemesis pause:target=one,every=20s,for=16s --time 22s",
        seen=(3, 3),
        cited=NEW,
    ),
    "redis-forgets": Finding(
        package="Redis 7.0 (server)",
        breaks="mutual-exclusion",
        says="with default settings a killed server loses the locks since its last snapshot",
        command="--system redis --workload renewal --nemesis kill:every=3s,for=200ms --time 12s",
        seen=(2, 2),
        cited="redis-doc#2106; no single-server lock promises more",
    ),
    "redis-py-3847": Finding(
        package="redis==7.1.0",
        breaks="orphan-freedom",
        says="an asyncio release drops its token before it sends the request: if it is cancelled in"
        " between, the key stays and cannot be released",
        command=f"--system redis --library redis==7.1.0 --set api=asyncio {_CANCELLED_RELEASE}",
        seen=(3, 3),
        cited="redis-py#3847",
        fixed="redis==8.1.0",
        clean=(0, 3),
    ),
    "valkey-py-cancelled-release": Finding(
        package="valkey==6.2.0",
        breaks="orphan-freedom",
        says="the same bug in the newest release of another package: the token is dropped before"
        " the release is sent",
        command=f"--system redis --library valkey==6.2.0 --set api=asyncio {_CANCELLED_RELEASE}",
        seen=(3, 3),
        cited=f"redis-py#3847 (the same in another package); here {NEW}",
    ),
    "coredis-cancelled-release": Finding(
        package="coredis==6.9.0",
        breaks="orphan-freedom",
        says="Lock.release clears its token before it sends the request: if it is cancelled in"
        " between, the key stays, and release reports that the lock is not held",
        command=f"--system redis --library coredis==6.9.0 {_CANCELLED_RELEASE}",
        seen=(3, 3),
        cited=NEW,
    ),
    "valkey-py-cancelled-acquire": Finding(
        package="valkey==6.2.0",
        breaks="orphan-freedom",
        says="an asyncio acquire cancelled after its SET was sent drops its token: the key stays,"
        " and release reports that the lock is not held",
        command=f"--system redis --library valkey==6.2.0 --set api=asyncio {_CANCELLED_ACQUIRE}",
        seen=(3, 3),
        cited=NEW,
    ),
    "coredis-cancelled-acquire": Finding(
        package="coredis==6.9.0",
        breaks="orphan-freedom",
        says="an acquire cancelled after its SET was sent keeps no token: the key stays, and"
        " release reports that the lock is not held",
        command="--system redis --library coredis==6.9.0 --set expire=none"
        f" {_TRY} --clients 3 --nemesis {_DELAY},"
        "cancel:every=500ms,for=400ms,after=20ms,count=1,target=clients --time 10s",
        seen=(3, 3),
        cited=NEW,
    ),
    "redlock-py-wall-clock": Finding(
        package="redlock-py==1.0.8",
        breaks="mutual-exclusion",
        says="validity uses the wall clock: if it steps back during an acquire, the holder gets a"
        " validity longer than the lifetime of its keys",
        command=f"--system redlock --library redlock-py==1.0.8 {_FLICKER}",
        seen=(3, 3),
        cited=NEW,
    ),
    "redlock-ng-wall-clock": Finding(
        package="redlock-ng==2.0.4",
        breaks="mutual-exclusion",
        says="the same bug: a validity of 6 s for keys with a lifetime of 1 s",
        command=f"--system redlock --library redlock-ng==2.0.4 {_FLICKER}",
        seen=(3, 3),
        cited=NEW,
    ),
    "redbeat-208": Finding(
        package="celery-redbeat==2.0.0",
        breaks="mutual-exclusion",
        says="celery swallows the error of an acquire whose connection is reset; the beat starts"
        " and ticks without the lock",
        command="--system redis --library celery-redbeat==2.0.0 --nemesis"
        " reset:every=2s,for=1s,count=1,target=clients --time 8s",
        seen=(3, 3),
        cited="redbeat#208",
        fixed="celery-redbeat==2.4.2",
        clean=(0, 3),
    ),
}
