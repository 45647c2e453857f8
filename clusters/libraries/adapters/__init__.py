"""One adapter per published lock library under test."""
