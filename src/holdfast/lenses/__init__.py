"""Features that look at a judged run, one module each (`harness/judging/lens.py`)."""
