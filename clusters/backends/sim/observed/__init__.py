"""Observation of a re-executed simulated run: its steps, their causes, states of its nodes."""
