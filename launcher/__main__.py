"""Entry of the console script and of ``python -m launcher``."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line and map what goes wrong to one sentence and an exit code."""
    if sys.argv[1:2] == ["embedded-server"]:  # before the heavy imports: a child of ours
        from launcher import embedded

        sys.exit(embedded.main(sys.argv[2:]))
    from launcher import cli, console
    from launcher.errors import LauncherError

    for name in (
        "SIGTERM",
        "SIGHUP",
        "SIGBREAK",
    ):  # leave as after Ctrl+C: what runs behind us is ended first
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _frame: sys.exit(128 + number))
    try:
        cli.app()
    except LauncherError as error:
        console.fail(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone; nobody is there to be told
        sys.exit(141)


if __name__ == "__main__":
    main()
