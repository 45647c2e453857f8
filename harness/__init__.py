"""The machinery above words: recording, driving, judging; it knows no system and no fault by name."""
