"""Kinds of faults as data, and the fault agent that injects them on a host."""
