"""Real bugs found again in published packages: what breaks, how often it shows, and the command.

No command knows the bug: each is a system, a workload, options that a user of the package may
choose, and a nemesis of the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass

NEW = "not reported before, as far as we could find"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One row of the track record.

    breaks   the property that comes out VIOLATED
    says     what happens, one sentence
    command  the words after `holdfast run`, without --seed
    seen     (k, n): so many of so many tries, with seeds 1 to n
    cited    where it was reported
    fixed    words that make the same command clean, with (k, n) violated; "" where none is known
    """

    package: str
    breaks: str
    says: str
    command: str
    seen: tuple[int, int]
    cited: str
    fixed: str = ""
    clean: tuple[int, int] = (0, 0)
    quick: bool = False


_TRY = "--workload try-lock"
_SLOW_CANCEL = (
    "--set api=asyncio --workload try-lock --set gap_ms=400 --lease 1s --clients 3 --nemesis"
    " delay:every=3s,for=2500ms,by=40ms,target=clients,"
    "cancel:every=500ms,for=400ms,after=20ms,count=1,target=clients --time 12s"
)
FINDINGS: dict[str, Finding] = {
    "sherlock-no-expire": Finding(
        package="sherlock==0.4.1",
        breaks="mutual-exclusion",
        says="RedisLock without an expiry deletes the key that it has just set: everybody holds",
        command="--system redis --library sherlock==0.4.1 --set expire=none --time 4s",
        seen=(3, 3),
        cited="sherlock#37 is the same complaint, of 2019",
        quick=True,
    ),
    "etcd3gw-with": Finding(
        package="etcd3gw==2.6.0",
        breaks="mutual-exclusion",
        says="`with` does not look at what acquire answered and runs its body in any case",
        command="--system etcd --library etcd3gw==2.6.0 --set way=with --time 5s",
        seen=(3, 3),
        cited="python-etcd3#1314 (the same in another package)",
    ),
    "etcd3gw-with-latest": Finding(
        package="etcd3gw==2.7.0",
        breaks="mutual-exclusion",
        says="the same in the newest release",
        command="--system etcd --library etcd3gw==2.7.0 --set way=with --time 5s",
        seen=(3, 3),
        cited=NEW,
    ),
    "aetcd-with": Finding(
        package="aetcd==1.0.0",
        breaks="mutual-exclusion",
        says="`async with` gives up after ten seconds without a word and runs its body",
        command="--system etcd --library aetcd==1.0.0 --set way=with --workload renewal --lease 15s"
        " --set hold_leases=1 --set wait_ms=10000 --clients 2 --time 26s",
        seen=(1, 1),
        cited="python-etcd3#599, #1314 (the same in another package)",
    ),
    "etcd3-py-99": Finding(
        package="etcd3-py==0.1.6",
        breaks="mutual-exclusion",
        says="the transaction of acquire overwrites the key: everyone who saw it free holds",
        command="--system etcd --library etcd3-py==0.1.6 --time 6s",
        seen=(3, 3),
        cited="etcd3-py#99",
    ),
    "redis-py-cve-2023-28858": Finding(
        package="redis==4.5.1",
        breaks="mutual-exclusion",
        says="a cancelled command leaves its reply behind; the next SET NX takes it for its own",
        command=f"--system redis --library redis==4.5.1 {_SLOW_CANCEL}",
        seen=(3, 3),
        cited="CVE-2023-28858, CVE-2023-28859",
        fixed="redis==4.6.0",
        clean=(0, 3),
    ),
    "redis-py-4279": Finding(
        package="redis==8.1.0",
        breaks="mutual-exclusion",
        says="reacquire of a lock with timeout=0 deletes the key and answers True",
        command="--system redis --library redis==8.1.0 --set expire=zero --time 4s",
        seen=(3, 3),
        cited="redis-py#4279",
    ),
    "valkey-py-reacquire": Finding(
        package="valkey==6.2.0",
        breaks="mutual-exclusion",
        says="the same: reacquire with timeout=0 deletes the key and answers True",
        command="--system redis --library valkey==6.2.0 --set expire=zero --time 4s",
        seen=(3, 3),
        cited="redis-py#4279 (the same in another package)",
    ),
    "redis-py-retry": Finding(
        package="redis==8.1.0",
        breaks="orphan-freedom",
        says="a SET NX whose reply is lost is sent again by the library, finds its own key and is"
        " told as not acquired; the key stays",
        command="--system redis --library redis==8.1.0 --set expire=none"
        f" {_TRY} --clients 2 --nemesis reply-loss:every=500ms,for=300ms --time 12s",
        seen=(4, 4),
        cited=NEW,
    ),
    "redis-py-cancelled-acquire": Finding(
        package="redis==8.1.0",
        breaks="orphan-freedom",
        says="an asyncio acquire that is cancelled after its SET was sent forgets its token: the"
        " key stays, and release says that it was never locked",
        command="--system redis --library redis==8.1.0 --set api=asyncio --set expire=none"
        f" {_TRY} --clients 3 --nemesis delay:every=4s,for=3500ms,by=40ms,target=clients,"
        "cancel:every=1s,for=500ms,after=20ms,count=1 --time 10s",
        seen=(3, 4),
        cited=NEW,
    ),
    "python-redis-lock-renewal": Finding(
        package="python-redis-lock==4.0.1",
        breaks="mutual-exclusion",
        says="one reset connection ends the thread that renews; the holder is never told, and"
        " another is granted when the lease is over",
        command="--system redis --library python-redis-lock==4.0.1 --set renew=library --workload"
        " renewal --lease 2s --clients 3 --nemesis reset:every=4s,for=3s,count=1,target=holder"
        " --time 12s",
        seen=(3, 3),
        cited="python-redis-lock#85, #93",
    ),
    "pottery-hung-master": Finding(
        package="pottery==3.0.1",
        breaks="no-hung-request",
        says="AIORedlock waits for every master: one of five that hangs holds up a try",
        command=f"--system redlock --library pottery==3.0.1 --set api=asyncio {_TRY}"
        " --nemesis pause:target=one,every=20s,for=16s --time 22s",
        seen=(3, 3),
        cited=NEW,
    ),
    "redis-forgets": Finding(
        package="Redis 7.0 (server)",
        breaks="mutual-exclusion",
        says="as shipped, a server that is killed forgets the locks since its last snapshot",
        command="--system redis --workload renewal --nemesis kill:every=3s,for=200ms --time 12s",
        seen=(2, 2),
        cited="redis-doc#2106; no lock of one server promises more",
    ),
    "etcd-11456": Finding(
        package="etcd 3.4.23 (server)",
        breaks="mutual-exclusion",
        says="the Lock call answers ok to waiters whose leases expired in the queue",
        command="--system etcd --set lock=rpc --set waiting=idle --workload renewal --set"
        " wait_ms=20000 --set hold_leases=2 --lease 2s --time 20s",
        seen=(5, 5),
        cited="etcd#11456",
    ),
    "etcd-15247": Finding(
        package="etcd 3.4.23 (server)",
        breaks="mutual-exclusion",
        says="a leader that was stopped, and resumed, revokes leases that were kept alive through"
        " its successor",
        command="--system etcd --clients 8 --locks 4 --workload renewal --nemesis"
        " pause:target=leader,every=22s,for=12s --lease 8s --time 22s",
        seen=(3, 10),
        cited="etcd#15247",
    ),
    "kazoo-732": Finding(
        package="kazoo==2.11.0",
        breaks="orphan-freedom",
        says="a refused try leaves its node in the queue where the connection breaks while kazoo"
        " cleans up: nobody is granted as long as that session lives",
        command="--system zookeeper --workload try-lock --clients 8 --set think_ms=1 --nemesis"
        " kill:target=follower,every=2s,for=500ms --lease 6s --time 24s",
        seen=(2, 3),
        cited="kazoo#732",
    ),
    "nats-4320": Finding(
        package="nats-server 2.9.10 (three servers)",
        breaks="mutual-exclusion",
        says="two writes on the condition of one and the same revision are both accepted while they"
        " are on their way to the other servers: a key is created twice",
        command="--system nats-kv --nodes 3 --clients 4 --time 12s",
        seen=(3, 3),
        cited="nats-server#4320",
    ),
}

NOT_SHOWN = (
    "redis==7.1.0, asyncio: a cancelled release that forgets its token (redis-py#3847): not in"
    " 3 tries with delay and cancel, one of them with reset too",
    "redlock-py==1.0.8: an acquire that raises although it has its quorum (redlock-py PR 27): the"
    " outcome is unknown to the judge, who accuses nobody (1 try, kill of one server)",
    "redlock-ng==2.0.4: one hung server of five: nothing violated in 2 tries (one was UNKNOWN)",
)
"""What was tried and did not come out violated."""


def command(finding: Finding) -> str:
    """The whole command line, but for the seed."""
    return f"holdfast run {finding.command}"


def page() -> str:
    """docs/findings/libraries.md, whole."""
    lines = [
        "# Bugs found again in published packages",
        "",
        "Written from `src/holdfast/findings.py`; `holdfast list findings` is the short form.",
        "Packages are unmodified and no command knows the bug. *Shows* is how many of how many",
        "tries with seeds 1 and on came out violated, on a busy machine of two cores. Locks with",
        "a lease promise nothing after it: overlaps are judged inside the time claimed only.",
        "Where no release without the bug is named we know of none.",
        "",
        "| id | package | breaks | what happens | shows | reported | without the bug |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in FINDINGS.items():
        shows = f"{found.seen[0]} of {found.seen[1]}"
        clean = f"{found.fixed}: {found.clean[0]} of {found.clean[1]}" if found.fixed else ""
        lines.append(
            f"| {name} | {found.package} | {found.breaks} | {found.says} | {shows} |"
            f" {found.cited} | {clean} |"
        )
    lines += ["", "Tried, and not shown:", "", *(f"- {tried}" for tried in NOT_SHOWN)]
    lines += ["", "The commands:", ""]
    for name, found in FINDINGS.items():
        lines += [f"## {name}", "", "```console", f"$ {command(found)}", "```", ""]
    return "\n".join(lines)
