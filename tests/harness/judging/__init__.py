"""Tests of harness/judging."""
