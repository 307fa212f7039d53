"""Run a directory of case files: `make cases DIR=..`."""

from cases.run import main

if __name__ == "__main__":
    main()
