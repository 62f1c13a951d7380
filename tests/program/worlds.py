"""Emulated AWS accounts with the existing resources that a stack refers to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from infra.config import stack_file
from infra.facts.manifests import MIRROR_VARIABLE
from infra.facts.model import Facts
from infra.preflight import examine_aws
from infra.settings.stack import Settings
from localcloud import mirror
from localcloud.aws import prerequisites
from localcloud.engine.mocks import MotoMocks

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*(ROOT / "stacks").glob("Pulumi.*.yaml"), *(ROOT / "tests" / "configs").glob("Pulumi.*.yaml")])
STACKS = [path for path in FILES if not stack_file.is_existing(stack_file.read(path).values)]
"""Stacks that create resources in AWS."""


@contextmanager
def account_for(path: Path) -> Iterator[tuple[Settings, Facts, MotoMocks]]:
    """Start the local AWS in this process and create the stack's prerequisites.

    Yield the stack's settings, its facts, and mocks that create its resources in the local AWS.
    """
    raw = stack_file.read(path)
    with MotoMocks(raw.region) as mocks, patch.dict(os.environ, {MIRROR_VARIABLE: str(mirror.ensure(print))}):
        prerequisites.make(raw.region, raw.values)
        settings, facts = examine_aws(raw).whole
        yield settings, facts, mocks
