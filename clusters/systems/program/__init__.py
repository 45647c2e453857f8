"""A lock in any language: a client program that speaks JSON lines, and any server it talks to."""
