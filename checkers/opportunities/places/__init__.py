"""Places in a history at which a defect would have been seen, whatever the fault is."""
