"""PostgreSQL under Patroni: two database servers that fail over by themselves, by a key in etcd."""

DATA = ("n1", "n2")
"""The nodes with a database; all others are members of the etcd that decides who leads."""
REST_PORT = 8008
TTL_S, LOOP_S, RETRY_S = 5, 1, 2
"""Life of the leader's key, the interval of Patroni's loop, and for how long it retries."""
