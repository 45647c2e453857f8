"""The ssh backend: nodes on other machines, and the host agent that acts there for the driver."""
