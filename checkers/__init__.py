"""One file per property: a history goes in, a verdict with witnesses comes out."""
