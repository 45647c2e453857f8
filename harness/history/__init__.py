"""Reads recorded histories: merged for the judge, live for the driver."""
