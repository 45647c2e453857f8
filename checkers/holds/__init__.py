"""Attempts and their holds, derived once from a history for all checkers."""
