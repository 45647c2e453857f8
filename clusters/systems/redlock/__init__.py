"""The published Redlock algorithm over independent Redis servers."""
