"""The command line's entry: from here on Ctrl-C is one line, also while the rest of the house is being imported.

Before this, Python starts itself, and a console script imports its own two modules: Ctrl-C then ends as Python ends it.
"""

import os


def main() -> None:
    """Run the command line."""
    try:
        import signal

        # Behind nohup it is ignored.
        heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if heard:
            # No exception, which some imports swallow: nothing is open yet that would have to be closed.
            signal.signal(signal.SIGINT, _end)
        from unlazy.cli import main as program

        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Whoever asks politely gets what Ctrl-C gives: children ended, what was finished stored, exit code 3.
            signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        program()
    except KeyboardInterrupt:
        _end()


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(3)


if __name__ == "__main__":
    main()
