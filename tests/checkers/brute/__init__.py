"""Slow judges and correct services that the checkers are held against."""
