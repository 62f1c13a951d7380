"""A node of a torchrun job, started by the command in its manifest, with a stub of torchrun."""

from pathlib import Path

import pytest

from localcloud.images import root
from localcloud.images.catalogue import OPENMPI_5
from tests.images.conftest import needs_roots, unpack_image
from tests.images.pods import Job, wait_until_true
from tests.pure.job_world import render_pods

pytestmark = [needs_roots, pytest.mark.xdist_group("job-images")]

# Stub of torchrun. Like torchrun, the stub starts a rank with LOCAL_RANK, and kills the rank at once on SIGTERM.
TORCHRUN = """#!/usr/bin/python3
import os, signal, subprocess, sys
open("/tmp/started", "w").write(" ".join([os.environ[n] for n in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK")]))
rank = subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, "LOCAL_RANK": "0"})
signal.signal(signal.SIGTERM, lambda *_: rank.kill())
sys.exit(rank.wait())
"""
RANK = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), pathlib.Path("/tmp/saved").touch(), sys.exit(0)))
pathlib.Path("/tmp/runs").touch()
signal.pause()
"""


def test_ranks_save_a_checkpoint_before_torchrun_receives_sigterm() -> None:
    (container,) = render_pods(name="node", launcher="torchrun", command=["torchrun", "-c", RANK])["worker"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    variables |= {"PATH": root.PATH, "JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "localhost"}
    with unpack_image(OPENMPI_5) as system:
        program: Path = system / "usr/local/bin/torchrun"
        program.write_text(TORCHRUN)
        program.chmod(0o755)
        job = Job(system, starts_sshd=False)
        try:
            pod, settings = job.launcher, (f"{name}={value}" for name, value in variables.items())
            main = ("sh", "-c", 'echo "$$" > /tmp/main; exec "$@"', "main")
            node = pod.start("env", "-i", *settings, *main, *container["command"])
            wait_until_true(lambda: pod.run("test", "-e", "/tmp/runs").returncode == 0 or node.poll() is not None)
            assert pod.run("cat", "/tmp/started").stdout == "2 4 1"
            pod.run("sh", "-c", 'kill -TERM "$(cat /tmp/main)"')
            output = node.communicate(timeout=240)[0]
            assert pod.run("test", "-e", "/tmp/saved").returncode == 0, output
            assert node.returncode == 143, "a stopped attempt has not succeeded"
        finally:
            job.stop()
