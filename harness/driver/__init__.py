"""Driving one run: the cluster, the fault schedule, the link to the fault agent."""
