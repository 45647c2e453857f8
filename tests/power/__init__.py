"""Every planted bug is found; no correct service is accused."""
