"""The command line: one file per command."""


def main() -> None:
    """Replaced as soon as the first command exists."""
