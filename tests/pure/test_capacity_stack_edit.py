"""`capacity reserve` edits a stack file and preserves everything else in it."""

import difflib
from pathlib import Path

import pytest

from cli.capacity.stack_edit import insert_block
from cli.errors import CommandError

STACKS = Path(__file__).parents[2] / "stacks"
SET = {"minSize", "desiredSize", "maxSize", "capacity", "zone", "placementGroup"}
BLOCK = ("p5.48xlarge", "cr-0aaaaaaaaaaaaaaaa", "us-west-2b", 2)

TEXT = """\
# Trains the large model.
config:
  aws:region: us-west-2  # close to the data
  gpumpi:target:
    kind: eks
    endpointAccess: {publicCidrs: ["203.0.113.0/24"]}
  gpumpi:pools:
    # the GPUs
    - name: train
      instanceType: p5.48xlarge   # 8 H100
      minSize: 1
      desiredSize: 2
      maxSize: 4
      zone: us-west-2a
      placementGroup: close
    - name: small
      instanceType: g5.xlarge
      maxSize: 1
"""


def diff_lines(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if line[0] in "+-"]


def test_reserving_changes_only_the_pool_and_keeps_comments() -> None:
    after, pool = insert_block(TEXT, None, *BLOCK)
    assert pool == "train"
    assert diff_lines(TEXT, after) == [
        "-      minSize: 1",
        "-      desiredSize: 2",
        "-      maxSize: 4",
        "-      zone: us-west-2a",
        "-      placementGroup: close",
        "+      minSize: 0",
        "+      desiredSize: 0",
        "+      maxSize: 2",
        "+      zone: us-west-2b",
        "+      capacity: {kind: capacity-block, reservationId: cr-0aaaaaaaaaaaaaaaa}",
    ]


@pytest.mark.parametrize("path", sorted(STACKS.glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_inserting_a_block_keeps_other_lines_of_every_stack_file(path: Path) -> None:
    before = path.read_text()
    try:
        after, _ = insert_block(before, None, "p5.48xlarge", *BLOCK[1:])
    except CommandError:
        return  # the file has no pool of that type
    removed = [line for line in diff_lines(before, after) if line.startswith("-")]
    assert {line.lstrip("- ").partition(":")[0] for line in removed} <= SET


def test_existing_block_is_replaced() -> None:
    before = (STACKS / "Pulumi.03-p5-capacity-block.yaml").read_text()
    after, _ = insert_block(before, None, *BLOCK)
    assert diff_lines(before, after) == [
        "-      capacity: {kind: capacity-block, reservationId: cr-0123456789abcdef0}",
        "+      capacity: {kind: capacity-block, reservationId: cr-0aaaaaaaaaaaaaaaa}",
    ]
    assert insert_block(after, None, *BLOCK)[0] == after


@pytest.mark.parametrize(
    ("text", "pool", "message"),
    [
        (TEXT, "other", "gpumpi:pools: there is no pool other with instanceType: p5.48xlarge. Add one"),
        (
            TEXT + "    - {name: more, instanceType: p5.48xlarge, maxSize: 1}\n",
            None,
            "2 pools have p5.48xlarge: train, more. Choose one with --pool",
        ),
        (
            "config:\n  aws:region: us-west-2\n",
            None,
            "config.gpumpi:pools: is missing. Add a pool with instanceType: p5.48xlarge",
        ),
        ("config: [\n", None, "the stack file is not YAML: "),
    ],
)
def test_file_without_exactly_one_matching_pool_is_refused(text: str, pool: str | None, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        insert_block(text, pool, *BLOCK)
    assert str(caught.value).startswith(message)
