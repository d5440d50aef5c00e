"""`python -m controller`: the same as the command `tfjob`."""

from controller.cli import main

if __name__ == "__main__":
    main()
