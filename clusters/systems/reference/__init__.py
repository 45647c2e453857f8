"""The reference lock service: replicated by consensus, with leases and fencing tokens."""
