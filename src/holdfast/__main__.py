"""`python -m holdfast` is the same program as `holdfast`."""

from holdfast.commands import main

if __name__ == "__main__":
    main()
