"""The executable specification of the reference lock service, and validation of its traces."""
