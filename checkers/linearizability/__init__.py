"""Linearizability of imported histories: exact models of locks, registers and stores."""
