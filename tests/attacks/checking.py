"""Parses values by schemas: each line of standard input is a schema and values, as JSON. Answers
each line with "ok".

Entry: it is a program, `python -m tests.attacks.checking`.
"""

from __future__ import annotations

import contextlib
import json
import sys

from treadle.errors import AgentError
from treadle.tools.function.given import GivenArguments
from treadle.tools.tool import InvalidArguments

if __name__ == "__main__":
    sys.setrecursionlimit(1000)
    for line in sys.stdin:
        schema, values = json.loads(line)
        with contextlib.suppress(AgentError):
            made = GivenArguments("t", "d", schema)
            for value in values:
                with contextlib.suppress(AgentError, InvalidArguments):
                    made.parse(json.dumps(value))
        print("ok", flush=True)
