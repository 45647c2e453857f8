"""Exact models of locks and registers, for histories of plain operations."""
