"""Histories that something else recorded, or that leave Holdfast for other tools."""
