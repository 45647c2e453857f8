"""The ssh backend: nodes on other machines, and the program that acts there for the driver."""
