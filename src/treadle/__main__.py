"""`python -m treadle` is `treadle`."""

from treadle.cli import main

if __name__ == "__main__":
    main()
