"""From options and files to a complete plan."""
