"""A federation of processes, as NVFlare's POC mode prepares it: a server, sites, and an administrator who submits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
from tests.nvflare.processes import environment

ADMINISTRATOR = "admin@nvidia.com"
SUBMIT = """
import sys, time
from nvflare.fuel.flare_api.flare_api import new_secure_session
session = new_secure_session(sys.argv[1], sys.argv[2], timeout=60)
deadline = time.monotonic() + 120
while time.monotonic() < deadline and len(session.get_connected_client_list()) < int(sys.argv[4]):
    time.sleep(1)
print(session.submit_job(sys.argv[3]))
session.close()
"""


class Poc:
    """Processes of one federation; each is the leader of its own group, so that it can be killed alone."""

    def __init__(self, folder: Path, sites: int) -> None:
        self.folder, self.sites = folder, [f"site-{number}" for number in range(1, sites + 1)]
        self.env = environment(folder) | {"NVFLARE_POC_WORKSPACE": str(folder / "poc")}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        command = ["nvflare", "poc", "prepare", "-n", str(sites), "--force"]
        subprocess.run(command, env=self.env, check=True, capture_output=True, timeout=120)
        self.kits = folder / "poc" / "example_project" / "prod_00"

    def __enter__(self) -> Poc:
        for name in ("server", *self.sites):
            self.start(name)
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self.running):
            self.kill(name)

    def start(self, name: str) -> None:
        """Start the server or a site."""
        with (self.folder / f"{name}.txt").open("a") as out:
            command = ["bash", self.kits / name / "startup" / "sub_start.sh", "--once"]
            self.running[name] = subprocess.Popen(command, env=self.env, cwd=self.folder, stdout=out, stderr=out)

    def kill(self, name: str) -> None:
        """End a process and the job that it runs, at once."""
        process = self.running.pop(name)
        try:
            family = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        process.kill()
        for child in family:
            child.kill()
        process.wait()

    def log(self, name: str) -> str:
        """What it wrote last."""
        return (self.folder / f"{name}.txt").read_text()[-3000:]

    def submit(self, job: Path, sites: int) -> str:
        """Submit an exported job when so many sites are connected; its id."""
        command = [sys.executable, "-c", SUBMIT, ADMINISTRATOR, self.kits / ADMINISTRATOR, job, str(sites)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.split()[-1]
