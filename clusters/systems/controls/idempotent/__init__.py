"""A control: no lock, but a resource whose commands take effect once however often they come."""
