"""Drawings: findings, cycles, the timeline, small charts."""
