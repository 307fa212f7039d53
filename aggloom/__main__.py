"""`python -m aggloom`: the command line."""

from aggloom.cli import main

if __name__ == "__main__":
    main()
