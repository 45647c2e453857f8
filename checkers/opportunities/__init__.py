"""Opportunities: places in a history where a lock with a typical defect would have been seen."""
