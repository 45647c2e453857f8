"""What a person reads: the story of a run, on a terminal and as one HTML file."""
