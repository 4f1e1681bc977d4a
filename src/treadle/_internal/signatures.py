"""Signatures of callables whose annotations may name types that exist only for type checkers.

Entry point: `signature_of`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature. On Python 3.14 and later, a name that an annotation mentions and that
    does not exist is a ForwardRef in it; `inspect.signature` alone would raise NameError.

    Raises TypeError or ValueError for a callable without a signature, such as some C functions.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415  exists from 3.14 on

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)
