"""etcd locks as commonly used: a lease, and a key that lives as long as the lease."""

PORT = 2379
PEER_PORT = 2380
