"""`scripts/cluster demo --heal`: a job survives the loss of its node."""

import json

import pytest

from localcloud.kubernetes import capability
from tests.cli.checkout import Checkout


@pytest.mark.mission_only
@pytest.mark.xdist_group("demo-heal")
def test_the_demo_shows_a_job_that_survives_a_node_failure(checkout: Checkout) -> None:
    if not (able := capability.check_machine()).real_nodes:
        pytest.skip("; ".join(able.missing))
    done = checkout.cluster("demo", "--heal", "--json")
    assert done.returncode == 0, done.stderr
    details = {step["step"]: step["detail"] for step in json.loads(done.stdout) if step["ok"]}
    assert "NvidiaXID79Error" in details["take the node out of service"]
    assert "1 disruption, 0 failures" in details["finish the job on another node"]
    assert "accepts jobs again" in details["reboot the node, and verify it"]
    assert "recovering" in details["show where the time went"]
    assert not (checkout.folder / ".local" / "demo-heal").exists()


def test_heal_and_ec2_demos_cannot_be_combined(checkout: Checkout) -> None:
    done = checkout.cluster("demo", "--heal", "--ec2")
    assert done.returncode == 2 and "--heal: an EC2 cluster has no job controller" in done.stderr
