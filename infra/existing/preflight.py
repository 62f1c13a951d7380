"""The same for a stack of an existing cluster: all its problems, without a question to AWS."""

from dataclasses import replace

from infra.existing import rules
from infra.existing.facts import ClusterFacts, gather
from infra.existing.settings import ExistingSettings
from infra.preflight import Examined, Way, judge
from infra.stack_file import RawStack


def examine(raw: RawStack, *, offline: bool = False) -> Examined[ExistingSettings, ClusterFacts]:
    """Judge every rule that can be judged, also where something is wrong already."""
    # Pulumi.yaml gives every key of a stack in AWS an empty default
    said = replace(raw, values={key: value for key, value in raw.values.items() if value not in ({}, [])})
    return judge(said, Way(ExistingSettings, gather, rules.check_offline, rules.check), offline=offline, stack=raw.stack)


def settings_and_facts(raw: RawStack) -> tuple[ExistingSettings, ClusterFacts]:
    """What the program is built from. Raises SettingsError with all problems, or FactsError where the cluster cannot be asked."""
    return examine(raw).whole
