"""`python -m treadle` is `treadle`.

Python puts the current directory first on the import path for `-m`, where a hostile project could
have a `click.py`.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from treadle.cli import main

    main()
