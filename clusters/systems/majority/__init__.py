"""Majority vote over independent lease servers, without consensus: broken by design."""
