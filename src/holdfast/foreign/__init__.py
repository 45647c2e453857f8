"""Histories of other tools: judged by a model, reported as a page."""
