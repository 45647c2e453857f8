"""One client process: guarded calls, grants, the worker, faults injected into the client itself."""
