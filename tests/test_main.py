from __future__ import annotations

import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_without_the_extra_the_command_line_says_what_to_install():
    done = run("import sys; sys.modules['typer'] = None\nfrom sortition.__main__ import main; main()")
    assert done.returncode == 2
    assert done.stderr == "sortition: the command line needs typer: pip install 'sortition[lab]'\n"


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "sortition", "list"], capture_output=True, text=True, check=True)
    assert "power-of-choice" in done.stdout
