"""Disks of nodes: filesystems of their own that lose power, hang or fill up."""
