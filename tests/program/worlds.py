"""Emulated AWS accounts with the existing resources to which a stack refers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from infra.config import stack_file
from infra.facts.manifests import MIRROR_VARIABLE
from infra.facts.model import Facts
from infra.preflight import examine_aws_stack
from infra.settings.stack import Settings
from localcloud import mirror
from localcloud.aws import prerequisites
from localcloud.engine.mocks import MotoMocks

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*(ROOT / "stacks").glob("Pulumi.*.yaml"), *(ROOT / "tests" / "configs").glob("Pulumi.*.yaml")])
STACKS = [path for path in FILES if not stack_file.uses_existing_cluster(stack_file.read_stack_file(path).values)]
"""Stacks that create resources in AWS."""


@contextmanager
def start_local_account(path: Path) -> Iterator[tuple[Settings, Facts, MotoMocks]]:
    """Start the local AWS in this process and create the stack's prerequisites.

    Yield the stack's settings, its facts, and mocks that create its resources in the local AWS.
    """
    raw = stack_file.read_stack_file(path)
    with MotoMocks(raw.region) as mocks, patch.dict(os.environ, {MIRROR_VARIABLE: str(mirror.ensure_mirror(print))}):
        prerequisites.create_prerequisites(raw.region, raw.values)
        settings, facts = examine_aws_stack(raw).settings_and_facts
        yield settings, facts, mocks
