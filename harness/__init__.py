"""The machinery above words: recording, driving, judging; it knows no system by name."""
