"""``python -m sortition``, and what the shell's ``sortition`` calls."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what to install where its extra is missing."""
    try:
        from sortition.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sortition"):
            raise
        sys.stderr.write(f"sortition: the command line needs {error.name}: pip install 'sortition[lab]'\n")
        raise SystemExit(2) from None
    run()


if __name__ == "__main__":
    main()
