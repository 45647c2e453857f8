"""Client programs for published lock packages of other languages, and what installs them."""
