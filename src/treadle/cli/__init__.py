"""The command line: `treadle`.

Commands live in modules of their own and are loaded when they are called. Entry: `main`.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs one command and exits with the codes of the manual: 0 done, 1 error, 2 usage, 3 limit, 4
    approval, 75 later, 130 stopped.
    """
    # before anything is imported: it is asked by scripts, often
    if sys.argv[1:] in (["--version"], ["-V"]):
        from treadle import __version__  # noqa: PLC0415  the cheapest import there is

        print(f"treadle {__version__}")
        return
    _open_closed_streams()
    try:
        from treadle.cli.app import app  # noqa: PLC0415  click costs 35 ms

        sys.exit(app(prog_name="treadle", standalone_mode=False))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as e:  # noqa: BLE001  the edge of the program: a person is told in a sentence, a developer asks for more
        sys.exit(_told(e))


def _open_closed_streams() -> None:
    """A closed stream is as good as an empty one, and no other file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


def _told(error: Exception) -> int:
    """Says what went wrong, without anything secret; gives the exit code."""
    import io  # noqa: PLC0415  here and below: only where something went wrong

    import click  # noqa: PLC0415

    from treadle.cli.exits import CommandFailed, clean  # noqa: PLC0415

    code, text = 1, io.StringIO()
    if isinstance(error, click.Abort):
        text.write("Aborted!\n")
    elif isinstance(error, click.ClickException):
        code = error.code if isinstance(error, CommandFailed) else error.exit_code
        error.show(text)
    elif os.environ.get("TREADLE_TRACEBACK"):
        import traceback  # noqa: PLC0415

        traceback.print_exception(error, file=text)
    else:
        text.write(
            f"treadle: this is a bug in Treadle: {type(error).__name__}: {error}\n  Set "
            "TREADLE_TRACEBACK=1 to see where, and please report it.\n"
        )
    click.echo(clean(text.getvalue()), err=True, nl=False)
    return code
