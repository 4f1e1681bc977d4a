"""`make oracle`. Entry: driver.py."""

from __future__ import annotations

import sys

from tests.oracle.driver import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
