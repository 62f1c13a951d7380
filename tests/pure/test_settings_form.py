"""Malformed settings: each message gives the path, the value and the fix in one sentence."""

from typing import Any

import pytest

from infra.config.parse import parse_model
from infra.config.problems import Problem, SettingsError, is_unreliable
from infra.jobs.model import Job
from infra.settings.stack import Settings
from tests.pure.world import FILE_SYSTEM, load_settings, pool, settings, stack_values

PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUA\n"
ONLY_NEW = "applies to a new file system, but fileSystemId names an existing one. Remove one of them."
ONLY_EXISTING = (
    "applies only to an existing file system; a new one always admits nodes. Set fileSystemId, or remove this setting."
)


def list_errors(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(raw)
    return [str(problem) for problem in caught.value.problems]


HEADLESS = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZWQyNTUxOQ"

FORM: dict[str, tuple[dict[str, Any], str]] = {
    # unknown keys
    "unknown key at the top level": (stack_values(pool=[]), "pool: is not a setting. Did you mean pools?"),
    "unknown key without a similar setting": (
        stack_values(queue=True),
        "queue: is not a setting. "
        "The settings here are budget, costCenter, jobs, network, permissionsBoundary, platform, pools, storage, tags and "
        "target.",
    ),
    "unknown key below": (stack_values(pool(minsize=1)), "pools[0].minsize: is not a setting. Did you mean minSize?"),
    "unknown key deep below": (
        stack_values(target={"endpointAccess": {"publicCidr": ["203.0.113.0/24"]}}),
        "target.endpointAccess.publicCidr: is not a setting. Did you mean publicCidrs?",
    ),
    "unknown key in one branch of a union": (
        stack_values(storage={"efs": {"mountPth": "/x"}}),
        "storage.efs.mountPth: is not a setting. Did you mean mountPath?",
    ),
    "misspelled key that selects a branch of a union": (
        stack_values(storage={"fsx": {"fileSystemID": FILE_SYSTEM}}),
        "storage.fsx.fileSystemID: is not a setting. Did you mean fileSystemId?",
    ),
    "backup setting for an existing file system": (
        stack_values(storage={"efs": {"fileSystemId": FILE_SYSTEM, "backup": True}}),
        f"storage.efs.backup: {ONLY_NEW}",
    ),
    "size of an existing Lustre file system": (
        stack_values(storage={"fsx": {"fileSystemId": FILE_SYSTEM, "sizeGib": 1200}}),
        f"storage.fsx.sizeGib: {ONLY_NEW}",
    ),
    "rule for a new file system": (
        stack_values(storage={"efs": {"addIngressRule": True}}),
        f"storage.efs.addIngressRule: {ONLY_EXISTING}",
    ),
    "rule for a new Lustre file system": (
        stack_values(storage={"fsx": {"addIngressRule": False}}),
        f"storage.fsx.addIngressRule: {ONLY_EXISTING}",
    ),
    "unknown key for a kind of capacity": (
        stack_values(pool(capacity={"kind": "spot", "reservationId": "cr-0123456789abcdef0"})),
        "pools[0].capacity.reservationId: is not a setting. The only setting here is kind.",
    ),
    "region among our keys": (stack_values(region="us-west-2"), "region: is not a setting. Write aws:region."),
    "stack among our keys": (stack_values(stack="x"), "stack: is not a setting. The file name sets the stack's name."),
    # wrong types
    "version without quotes": (
        stack_values(target={"kubernetesVersion": 1.3}),
        'target.kubernetesVersion: 1.3 is a number. Write the version in quotes: "1.35"',
    ),
    "add-on version without quotes": (
        stack_values(target={"addonVersions": {"coredns": 1.2}}),
        'target.addonVersions.coredns: 1.2 is a number. Write the version in quotes: "1.2"',
    ),
    "number instead of a string": (
        stack_values(pool(labels={"team": 7})),
        'pools[0].labels.team: 7 is a number. Write it in quotes: "7"',
    ),
    "boolean instead of a string": (
        stack_values(tags={"open": True}),
        'tags.open: true is not text. Write it in quotes: "true"',
    ),
    "quoted number instead of a number": (
        stack_values(pool(minSize="2")),
        'pools[0].minSize: "2" is text. Write it without quotes: 2',
    ),
    "word instead of a number": (stack_values(pool(minSize="two")), 'pools[0].minSize: "two" is text. Use a whole number.'),
    "part of a node": (stack_values(pool(minSize=1.5)), "pools[0].minSize: 1.5 is not a whole number"),
    "number below the minimum": (
        stack_values(platform={"startAttempts": -1}),
        "platform.startAttempts: -1 is too small. Use at least 0.",
    ),
    "amount that is not positive": (
        stack_values(budget={"maxHourly": 0}),
        "budget.maxHourly: 0 is too small. Use more than 0.",
    ),
    "boolean instead of a number": (stack_values(pool(minSize=True)), "pools[0].minSize: true is a boolean. Use a whole number."),
    "quoted number instead of a fraction": (
        stack_values(platform={"cpuRequestFactor": "0.5"}),
        'platform.cpuRequestFactor: "0.5" is text. Write it without quotes: 0.5',
    ),
    "word instead of a fraction": (
        stack_values(platform={"cpuRequestFactor": "half"}),
        'platform.cpuRequestFactor: "half" is text. Use a number.',
    ),
    "string instead of a boolean": (
        stack_values(target={"deletionProtection": "true"}),
        'target.deletionProtection: "true" is text. Write it without quotes: true',
    ),
    "string instead of a list": (stack_values(target={"admins": "me"}), 'target.admins: "me" is text. Use a list.'),
    "unknown Pod Security level": (
        stack_values(platform={"namespaces": [{"name": "open", "podSecurity": "privileged"}]}),
        'platform.namespaces[0].podSecurity: "privileged" is not valid. Use restricted or baseline.',
    ),
    "namespace without a name": (
        stack_values(platform={"namespaces": [{"podSecurity": "baseline"}]}),
        "platform.namespaces[0].name: is missing. Add it.",
    ),
    "list instead of a mapping": (stack_values(network=["10.0.0.0/16"]), "network: is a list. Use a mapping."),
    "mapping instead of a list": ({"target": {"kind": "eks"}, "pools": pool()}, "pools: is a mapping. Use a list."),
    "string instead of a pool": (stack_values("train"), 'pools[0]: "train" is text. Use a mapping.'),  # type: ignore[arg-type]
    "kind of capacity instead of a mapping": (
        stack_values(pool(capacity="spot")),
        'pools[0].capacity: "spot" is text. Use a mapping, like {kind: spot}.',
    ),
    "empty value of an optional key": (stack_values(platform=None), "platform: is empty. Use a mapping, or remove the key."),
    "empty value of a required key": ({"target": None}, "target: is empty. Use a mapping."),
    # unions
    "neither number nor list": (
        stack_values(network={"zones": "many"}),
        'network.zones: "many" is text. Use a whole number or a list.',
    ),
    "a number in quotes": (stack_values(network={"zones": "3"}), 'network.zones: "3" is text. Write it without quotes: 3'),
    "list with an item of the wrong type": (
        stack_values(network={"zones": [1, "us-west-2a"]}),
        'network.zones[0]: 1 is a number. Write it in quotes: "1"',
    ),
    "neither word nor mapping": (
        stack_values(storage={"efs": "nne"}),
        'storage.efs: "nne" is not valid. Use none or a mapping. Did you mean none?',
    ),
    "neither word nor truth": (stack_values(pool(efa="yes")), 'pools[0].efa: "yes" is not valid. Use auto, true or false.'),
    # choices
    "not among the choices": (
        stack_values(network={"natGateways": "perzone"}),
        'network.natGateways: "perzone" is not valid. Use none, one or perZone. Did you mean perZone?',
    ),
    "number that is not a valid choice": (
        stack_values(storage={"efs": {"infrequentAccessAfterDays": 31}}),
        "storage.efs.infrequentAccessAfterDays: 31 is not valid. Use 1, 7, 14, 30, 60, 90, 180, 270 or 365.",
    ),
    "unknown kind of capacity": (
        stack_values(pool(capacity={"kind": "spott"})),
        'pools[0].capacity.kind: "spott" is not valid. Use on-demand, spot, targeted-odcr or capacity-block. Did you mean spot?',
    ),
    "no kind of capacity": (
        stack_values(pool(capacity={"reservationId": "cr-0123456789abcdef0"})),
        "pools[0].capacity.kind: is missing. Use on-demand, spot, targeted-odcr or capacity-block.",
    ),
    "unknown target": (
        stack_values(target={"kind": "ec3"}),
        'target.kind: "ec3" is not valid. Use eks, ec2 or existing. Did you mean ec2?',
    ),
    # missing
    "no target": ({}, "target: is missing. Add it, for example `target: {kind: eks}`."),
    "no name": (
        {"target": {"kind": "eks"}, "pools": [{"instanceType": "g5.xlarge", "maxSize": 1}]},
        "pools[0].name: is missing. Add it, for example `name: train`.",
    ),
    "no largest size": (
        {"target": {"kind": "eks"}, "pools": [{"instanceType": "g5.xlarge", "name": "a"}]},
        "pools[0].maxSize: is missing. Add it, for example `maxSize: 4`.",
    ),
    "no reservation": (
        stack_values(pool(capacity={"kind": "capacity-block"})),
        "pools[0].capacity.reservationId: is missing. Add it, for example `reservationId: cr-0123456789abcdef0`.",
    ),
    # secrets
    "private key": (
        stack_values(tags={"note": PEM}),
        "tags.note: holds a private key in plain text, and everyone who can read the file can see it; remove it and revoke it",
    ),
    "AWS secret key": (
        stack_values(pool(labels={"x": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"})),
        "pools[0].labels.x: holds an AWS secret key in plain text, "
        "and everyone who can read the file can see it; remove it and revoke it",
    ),
    "AWS access key": (
        stack_values(target={"admins": ["AKIAIOSFODNN7EXAMPLE"]}),
        "target.admins[0]: holds an AWS access key in plain text, "
        "and everyone who can read the file can see it; remove it and revoke it",
    ),
    "token under an unknown key": (
        stack_values(hub={"token": "hf_abcdefghijklmnopqrstuvwxyz012345"}),
        "hub.token: holds a Hugging Face token in plain text, and everyone who can read the file can see it; "
        "remove it and revoke it",
    ),
    "private key without its header line": (
        stack_values(pool(), target={"kind": "ec2", "ssh": {"publicKeys": [HEADLESS]}}),
        "target.ssh.publicKeys[0]: holds a private key in plain text, "
        "and everyone who can read the file can see it; remove it and revoke it",
    ),
    "secret by its name": (
        stack_values(tags={"dbPassword": "hunter2"}),
        "tags.dbPassword: holds a secret (judging by the key's name) in plain text, "
        "and everyone who can read the file can see it; remove it and revoke it",
    ),
}


@pytest.mark.parametrize("case", FORM)
def test_schema_error_is_one_sentence(case: str) -> None:
    raw, expected = FORM[case]
    assert expected in list_errors(raw)


@pytest.mark.parametrize("case", [case for case in FORM if "under an unknown key" not in case])
def test_schema_error_is_reported_once(case: str) -> None:
    raw, expected = FORM[case]
    assert list_errors(raw) == [expected]


@pytest.mark.parametrize("key", [HEADLESS, f"MIIEowIBAAKCAQEA{'q1Wz' * 20}"])
def test_a_private_key_without_its_header_line_is_never_quoted(key: str) -> None:
    messages = list_errors(stack_values(pool(instanceType=7), target={"kubernetesVersion": key, "logRetentionDays": key}))
    assert any("holds a private key" in message for message in messages)
    assert not any(key[:12] in message for message in messages)


def test_all_schema_errors_are_reported_at_once() -> None:
    raw = stack_values(pool(minSize="1", efa="yes"), pool(maxSize="2"), pol=[], network={"zones": "x"}, tags={"a": 1})
    assert [error.partition(":")[0] for error in list_errors(raw)] == [
        "network.zones",
        "pools[0].minSize",
        "pools[0].efa",
        "pools[1].maxSize",
        "tags.a",
        "pol",
    ]


def test_error_messages_never_show_secrets() -> None:
    raw = stack_values(pool(minSize=PEM, name=PEM), network={"zones": PEM, "natGateways": PEM}, tags={"token": "s3cr3t"})
    text = "\n".join(list_errors(raw))
    assert "PRIVATE KEY" not in text
    assert "s3cr3t" not in text


@pytest.mark.parametrize(
    "harmless",
    [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",  # a commit
        "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_0123456789abcdef",
        "projects/machine-learning/teams/vision/2026",
    ],
)
def test_long_harmless_value_is_not_treated_as_secret(harmless: str) -> None:
    assert settings(tags={"note": harmless}).tags == {"note": harmless}


def test_valid_settings_are_kept_despite_an_error() -> None:
    raw = stack_values(pool("a", minSize="1"), "b", pool("c"), network={"cidr": "10.9.0.0/16", "zones": "x"})  # type: ignore[arg-type]
    partial = parse_model(Settings, raw, stack="test", region="us-west-2").model
    assert partial is not None
    assert partial.network.cidr == "10.9.0.0/16"
    assert [pool.name for pool in partial.pools] == ["a", "", "c"], "indexes must not shift, so that paths stay correct"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pools[0].minSize", True),  # The placeholder itself.
        ("pools[0].desiredSize", True),  # Compared with the placeholder.
        ("pools[0].name", False),
        ("pools[0].instanceType", False),
        ("pools[1].name", True),  # below a placeholder
        ("pools[2].minSize", False),
        ("target.addonVersions.coredns", True),  # below a setting that is compared with a placeholder
        ("target.logRetentionDays", False),
        ("network.cidr", False),
        ("pools", False),
    ],
)
def test_rule_result_is_unreliable_if_its_path_depends_on_a_placeholder(path: str, expected: bool) -> None:
    assert is_unreliable(path, {"pools[0].minSize", "pools[1]", "target.kubernetesVersion"}) is expected


def test_both_spellings_of_a_misspelled_key_become_placeholders() -> None:
    assert parse_model(Settings, stack_values(pool(minsize=3)), stack="test", region="us-west-2").placeholders == {
        "pools[0].minsize",
        "pools[0].minSize",
    }


def test_unknown_key_beside_the_correct_key_is_the_only_placeholder() -> None:
    assert parse_model(Settings, {**stack_values(pool()), "pool": []}, stack="test", region="us-west-2").placeholders == {"pool"}


def test_minimal_stack_gets_the_documented_defaults() -> None:
    least = settings()
    assert least.network.new_cidr == "10.0.0.0/16"
    assert least.network.nat == "one"
    assert not least.network.has_interface_endpoints
    assert not least.target.endpoint_access.is_public
    assert least.target.kubernetes_version == "1.35"
    assert least.cluster_name == "gpumpi-test"
    assert least.platform.autoscaler


def test_endpoint_is_public_only_if_cidrs_are_set() -> None:
    named = settings(target={"endpointAccess": {"publicCidrs": ["203.0.113.0/24"]}})
    assert named.target.endpoint_access.is_public


def test_settings_are_immutable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings().network.cidr = "10.1.0.0/16"  # type: ignore[misc]


def test_every_field_documents_the_effect_of_a_change() -> None:
    """A job's fields are exempt, because every change to a job creates a new job."""

    def list_fields(model: Any, path: str = "") -> list[tuple[str, str]]:
        from pydantic import BaseModel

        from infra.config.models import list_leaf_types

        described = []
        for name, field in model.model_fields.items():
            if name != "kind" and not field.exclude:
                described.append((f"{path}{name}", field.description or ""))
            for leaf in list_leaf_types(field.annotation):
                for inner in getattr(leaf, "__args__", ()) or (leaf,):
                    for leaf_type in list_leaf_types(inner):
                        if isinstance(leaf_type, type) and issubclass(leaf_type, BaseModel) and leaf_type is not Job:
                            described += list_fields(leaf_type, f"{path}{name}.")
        return described

    described = list_fields(Settings)
    assert len(described) > 40
    assert [name for name, text in described if "Change:" not in text] == []


def test_problem_is_formatted_as_path_and_sentence() -> None:
    assert str(Problem("pools[0].efa", "is true, but g5.xlarge has no EFA")) == "pools[0].efa: is true, but g5.xlarge has no EFA"
