"""`python -m trainload`, for where the command is not installed."""

from trainload.cli import main

if __name__ == "__main__":
    main()
