"""Exact verdicts on lock histories without a search."""
