"""`treadle serve` that waits for nothing long, and has few places: `python -m tests.service.hasty`.

The bounds are the product's, made small, so that a test sees each of them within a second.
"""

from __future__ import annotations

import sys

from treadle.cli import main
from treadle.service import bodies, connection, connection_table

if __name__ == "__main__":
    connection.HEADERS_S, connection.IDLE_S, connection.BODY_S = 0.5, 1, 0.8
    connection.READING_S = 0.5
    bodies.BODY_S = 0.6
    connection_table.CONNECTIONS_MOST = 40
    sys.argv = ["treadle", "serve", "--port", "0", *sys.argv[1:]]
    main()
