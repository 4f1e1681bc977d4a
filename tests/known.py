"""What Treadle finds out when it first needs it, and keeps while the process lives: patterns,
decoders, and that bubblewrap works. A process that forks others imports this module, so that none of
them finds it out again, in 5 to 60 ms.
"""

from __future__ import annotations

import shutil
import sys

from treadle._internal.json_text import met
from treadle.config import Config
from treadle.policy.guarded_paths import guard_of, is_secret, may_be_secret_name
from treadle.policy.sandboxes.bubblewrap import Bubblewrap

guard_of("/file")
is_secret("/file")
may_be_secret_name("file")
met(Config)


if sys.platform == "linux" and (_program := shutil.which("bwrap")):
    Bubblewrap(_program)._trial._found_out()  # in this thread, and without an event loop
