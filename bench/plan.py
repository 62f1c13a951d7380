"""`python -m bench.plan`: compare the verdict of `plan` with the result of `up`, on generated stacks and accounts.

`up` must create every stack that `plan` accepts, and must fail for the same reason on every stack that `plan` rejects.
Exits with 1 if they disagree.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from unittest import mock

from cli.console import say
from testkit.plan_worlds import Outcome, compare_plan_and_up, draw_worlds

STACKS = 200


def compare_plan_with_up(stacks: int, seed: int) -> list[Outcome]:
    """Compare `plan` and `up` for this number of stacks. Does not change the user's price cache."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cache}):
        for number, world in enumerate(draw_worlds(stacks, seed), 1):
            outcomes.append(compare_plan_and_up(world))
            say(f"{number} of {stacks}: {outcomes[-1].summary}")
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__.splitlines()[0])
    parser.add_argument("--stacks", type=int, default=STACKS, help="number of stacks (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generator (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args()
    outcomes = compare_plan_with_up(options.stacks, options.seed)
    counts = Counter(check.check for outcome in outcomes for check in outcome.refused_answers)
    disagreements = [outcome for outcome in outcomes if outcome.disagreement]
    if options.json:
        listed = [outcome.as_json() for outcome in disagreements]
        print(
            json.dumps(
                {"stacks": len(outcomes), "seed": options.seed, "refusals": dict(counts), "disagreements": listed}, indent=1
            )
        )
    else:
        print(f"{len(outcomes)} stacks with seed {options.seed}: {len(disagreements)} disagreements")
        for name, number in counts.most_common():
            print(f"  {number} refused by {name}")
        for outcome in disagreements:
            print(json.dumps(outcome.as_json(), indent=1))
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
