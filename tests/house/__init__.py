"""What the house rules demand, as tests."""
