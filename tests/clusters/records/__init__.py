"""Tests of the readers of servers' own records."""
