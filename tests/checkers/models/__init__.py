"""The exact models beside a brute force over all orders."""
