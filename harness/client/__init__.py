"""One client process: guarded calls, grants, the worker, faults that it inflicts on itself."""
