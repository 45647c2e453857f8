"""The server behind `holdfast serve`."""
