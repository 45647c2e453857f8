"""A lock in a NATS key-value bucket: a key, created if absent, that expires with age."""

PORT = 4222
PEER_PORT = 6222
STATUS_PORT = 8222
BUCKET = "holdfast"
