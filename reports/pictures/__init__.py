"""Drawings: findings, cycles, timeline, charts."""
