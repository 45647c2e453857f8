"""The measurements that every report shows beside the verdicts."""
