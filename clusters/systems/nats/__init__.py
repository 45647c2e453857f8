"""A lock in a NATS key-value bucket: a key is created if it is absent, and ages with its bucket."""

PORT = 4222
PEER_PORT = 6222
STATUS_PORT = 8222
BUCKET = "holdfast"
