"""Campaigns from outside: many runs carried out, followed, and their results collected."""
