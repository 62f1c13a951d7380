"""Import the join service from the folder that the AMI's provisioners install, and run it against an emulated AWS."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from localcloud.aws import calls, extend, faults
from testkit.aws_clients import client

sys.path.insert(0, str(Path(__file__).parents[2] / "amis" / "join"))
extend.extend_moto()


@pytest.fixture
def world(tmp_path: Path) -> Iterator["World"]:  # noqa: F821
    from tests.join.world import World

    calls.clear_counts()
    with mock_aws():
        yield World(client, tmp_path)
    faults.clear_faults()
