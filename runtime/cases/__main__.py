"""`python -m aggloom.runtime.cases`: run a directory of case files."""

from aggloom.runtime.cases.run import main

if __name__ == "__main__":
    main()
