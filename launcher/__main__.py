"""Entry of the console script and of ``python -m launcher``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.streams import Output

# Each ends us as Ctrl+C does: what runs behind us is ended first. SIGHUP: the terminal was closed.
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def main() -> None:
    """Run the command line and map what goes wrong to one sentence and an exit code."""
    if sys.argv[1:2] == ["embedded-server"]:  # before the heavy imports: a child of ours
        from launcher import embedded, streams

        streams.ensure(keep=False)
        sys.exit(embedded.main(sys.argv[2:]))
    if sys.argv[1:2] == ["watched"]:
        from launcher.supervise import watched

        sys.exit(watched.main())
    on_signals(lambda number, _frame: os._exit(128 + number))  # nothing runs behind us yet
    from launcher import streams

    output = streams.ensure()  # before anybody may write
    from launcher import cli, console
    from launcher.errors import LauncherError

    end_on_signals()
    try:
        cli.app()
    except LauncherError as error:
        console.fail(error)
        show_at_desktop(error, output)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone; nobody is there to be told
        sys.exit(141)
    except Exception as error:
        show_at_desktop(error, output)
        raise


def show_at_desktop(error: Exception, output: Output) -> None:
    """Nobody reads a terminal after a double-click: then the page that was to open says what is wrong."""
    from launcher import alert, cli, streams
    from launcher.errors import LauncherError

    said = sys.argv[1:]
    if streams.by_double_click(output) and "--no-browser" not in said and not cli.commands() & set(said):
        told = error if isinstance(error, LauncherError) else alert.unexpected(error)
        alert.show(told, streams.folder(), output.log)


def end_on_signals() -> None:
    """The first signal ends us in order, one that comes meanwhile at once: the engines are killed, nothing is
    printed."""
    ending = False

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal ending
        if ending:
            end_at_once(number)
        ending = True
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    on_signals(end)


def on_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    """``handler`` for all that end us. What a parent has told us to ignore (nohup, a shell's background) stays
    ignored."""
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def end_at_once(number: int) -> None:
    """Kill what runs behind us and leave."""
    children = sys.modules.get("launcher.supervise.child")  # not loaded: there are none
    if children is not None:
        children.kill_all()
    os._exit(128 + number)


if __name__ == "__main__":
    main()
