"""Stack files are read as the Pulumi engine reads them; problems in a file are reported with their path and line."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from infra import preflight
from infra.config import stack_file
from infra.config.problems import SettingsError
from infra.config.stack_file import NoSuchStack, RawStack
from infra.facts import regions
from tests.pure.world import load_settings


def read_stack(folder: Path, text: str, name: str = "Pulumi.test.yaml") -> RawStack:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return stack_file.read_stack_file(path)


def list_problems(raw: RawStack) -> list[str]:
    return [str(problem) for problem in raw.problems]


def test_project_keys_are_read_without_their_namespace(tmp_path: Path) -> None:
    raw = read_stack(
        tmp_path,
        """
        encryptionsalt: v1:abc
        config:
          aws:region: us-west-2
          aws:profile: work
          other:pools: 7
          gpumpi:target: {kind: eks}
          gpumpi:pools:
            - {name: train, maxSize: 2}
        """,
    )
    assert raw == RawStack("test", "us-west-2", {"target": {"kind": "eks"}, "pools": [{"name": "train", "maxSize": 2}]})


def test_key_without_a_namespace_belongs_to_the_project_as_in_pulumi(tmp_path: Path) -> None:
    raw = read_stack(tmp_path, "config: {'aws:region': us-west-2, costCenter: ml}")
    assert raw.values == {"costCenter": "ml"}


# In Pulumi 3.246.0, `pulumi config --json` prints `value` for the YAML value `text`.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("1.30", 1.3),
        ("1e3", 1000),
        ("08", 8),
        ("0o17", 15),
        ("0123", 83),
        ("1_000", 1000),
        (".5", 0.5),
        ("12:30", "12:30"),
        ("~", None),
        ('"1.30"', "1.30"),
        ("-3", -3),
    ],
)
def test_plain_yaml_values_are_parsed_as_by_pulumi(tmp_path: Path, text: str, value: object) -> None:
    raw = read_stack(tmp_path, f"config: {{'aws:region': us-west-2, 'gpumpi:target': {{value: {text}}}}}")
    target: Any = raw.values["target"]
    assert target["value"] == value
    assert type(target["value"]) is type(value)


@pytest.mark.parametrize(("text", "value"), [("1234", "1234"), ("1.30", "1.3"), ("true", "true"), ("", ""), ("ml", "ml")])
def test_top_level_values_are_always_text_as_in_pulumi(tmp_path: Path, text: str, value: str) -> None:
    assert read_stack(tmp_path, f"config:\n  aws:region: us-west-2\n  gpumpi:costCenter: {text}\n").values == {
        "costCenter": value
    }


def test_duplicate_keys_are_reported_with_path_and_lines(tmp_path: Path) -> None:
    raw = read_stack(
        tmp_path,
        """\
        config:
          aws:region: us-west-2
          gpumpi:pools:
            - name: train
              maxSize: 2
              maxSize: 3
            - {name: eval, labels: {a: x, b: y, a: z}}
          aws:region: us-east-1
          gpumpi:tags: {}
          gpumpi:tags: {}
        """,
    )
    assert sorted(list_problems(raw)) == [
        "aws:region: is set twice, on lines 2 and 8; keep one",
        "pools[0].maxSize: is set twice, on lines 5 and 6; keep one",
        "pools[1].labels.a: is set twice, on line 7; keep one",
        "tags: is set twice, on lines 9 and 10; keep one",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "config: is missing; put the settings below `config:`"),
        ("pools: []", "config: is missing; put the settings below `config:`"),
        ("config:", "config: is missing; put the settings below `config:`"),
        ("config: [a, b]", "config: is missing; put the settings below `config:`"),
        (
            "config:\n  a: [1, 2\n  b: 3\n",
            "Pulumi.test.yaml: is not YAML: expected ',' or ']', but got ':', line 3, column 4",
        ),
        (
            "config:\n\ta: 1\n",
            "Pulumi.test.yaml: is not YAML: found character '\\t' that cannot start any token, line 2, column 1",
        ),
        ("config: {'gpumpi:target': {kind: eks}}", "aws:region: is missing. Add it, for example `aws:region: us-west-2`."),
        ("config: {'aws:region': ''}", "aws:region: is missing. Add it, for example `aws:region: us-west-2`."),
        (
            "config: {'aws:region': us-west-2, 'gpumi:pools': []}",
            "gpumi:pools: is ignored. Did you mean gpumpi:pools?",
        ),
        (
            "config: {'aws:region': us-west-2, 'aws:secretKey': wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY}",
            "aws:secretKey: holds an AWS secret key in plain text, and everyone who can read the file can see it; "
            "revoke it, and set a new one with `pulumi config set --secret aws:secretKey`",
        ),
    ],
)
def test_invalid_stack_file_structure_is_reported(tmp_path: Path, text: str, expected: str) -> None:
    assert list_problems(read_stack(tmp_path, text)) == [expected]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcde", "bcdef", strict=True)
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"config: {'aws:region': \xff\xfe}", "is not UTF-8 text: byte 24 is wrong; save it as UTF-8"),
        (b"config: &all\n  gpumpi:tags: *all\n", "has an alias that contains itself, line 1. Write the value out."),
        (BOMB.encode(), "has more than 100000 values once its aliases are expanded. Write it without them."),
        (b"[" * 5000, "is nested too deeply; reduce the nesting"),
    ],
    ids=["not UTF-8", "an alias of itself", "an alias bomb", "deeply nested"],
)
def test_unreadable_file_content_is_a_problem_instead_of_a_crash(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "Pulumi.test.yaml"
    path.write_bytes(content)
    raw = stack_file.read_stack_file(path)
    assert list_problems(raw) == [f"Pulumi.test.yaml: {expected}"]
    assert preflight.examine_aws_stack(raw).problems == raw.problems


def test_merged_yaml_key_may_be_overridden(tmp_path: Path) -> None:
    raw = read_stack(
        tmp_path,
        """
        x-pool: &pool {instanceType: g5.xlarge, maxSize: 2}
        config:
          aws:region: us-west-2
          gpumpi:pools:
            - {<<: *pool, name: train, maxSize: 4}
        """,
    )
    assert list_problems(raw) == []
    assert raw.values == {"pools": [{"instanceType": "g5.xlarge", "maxSize": 4, "name": "train"}]}


def test_pulumi_keys_are_ignored(tmp_path: Path) -> None:
    raw = read_stack(
        tmp_path, "config: {'aws:region': us-west-2, 'pulumi:tags': {team: ml}, 'pulumi:autonaming': {mode: default}}"
    )
    assert (list_problems(raw), raw.values) == ([], {})


@pytest.mark.parametrize("text", ["${X}", "us west 2", "US-WEST-2", "us-west-2;"])
def test_invalid_region_is_a_problem_and_aws_is_not_queried(tmp_path: Path, text: str) -> None:
    raw = read_stack(tmp_path, f"config: {{'aws:region': '{text}', 'gpumpi:target': {{kind: eks}}}}")
    (problem,) = preflight.examine_aws_stack(raw).problems
    assert str(problem) == f'aws:region: "{text}" is not a region name. Use one such as us-west-2.'


def test_every_sdk_region_is_a_valid_region_name() -> None:
    assert [region for region in regions.list_sdk_regions() if not regions.is_region_name(region)] == []
    assert "eusc-de-east-1" in regions.list_sdk_regions()


def test_encrypted_values_in_other_namespaces_are_accepted(tmp_path: Path) -> None:
    raw = read_stack(tmp_path, "config: {'aws:region': us-west-2, 'aws:secretKey': {secure: v1:abc}}")
    assert list_problems(raw) == []


def test_an_encrypted_setting_is_reported(tmp_path: Path) -> None:
    raw = read_stack(
        tmp_path, "config: {'aws:region': us-west-2, 'gpumpi:target': {kind: eks}, 'gpumpi:tags': {a: {secure: v1:abc}}}"
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(raw.values, stack=raw.stack, region=raw.region)
    assert str(caught.value) == "tags.a: is encrypted, but no setting here is a secret. Write it in plain text."


def test_a_stack_is_found_in_any_folder_by_its_short_name(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.prod.yaml").touch()
    (tmp_path / "Pulumi.dev.yml").touch()
    assert stack_file.find_stack_file("prod", tmp_path).name == "Pulumi.prod.yaml"
    assert stack_file.find_stack_file("acme/gpumpi/prod", tmp_path).name == "Pulumi.prod.yaml"
    assert stack_file.find_stack_file("dev", tmp_path).name == "Pulumi.dev.yml"


def test_unknown_stack_is_reported_with_the_existing_stacks(tmp_path: Path) -> None:
    with pytest.raises(NoSuchStack, match="there is no stack file in "):
        stack_file.find_stack_file("prod", tmp_path)
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.prod.yaml").touch()
    (tmp_path / "Pulumi.test.yaml").touch()
    with pytest.raises(NoSuchStack) as caught:
        stack_file.find_stack_file("prd", tmp_path)
    assert str(caught.value) == f'there is no stack "prd" in {tmp_path}. Did you mean prod? There are prod, test'


# --- the same values from the Pulumi engine ----------------------------------------------------------------------------


@pytest.fixture
def set_engine_config(monkeypatch: pytest.MonkeyPatch) -> Any:
    import pulumi
    from pulumi.runtime import config

    monkeypatch.setattr(pulumi, "get_stack", lambda: "prod")
    before = (dict(config.CONFIG.get()), set(config._SECRET_KEYS.get()))
    yield config.set_all_config
    config.set_all_config(before[0], sorted(before[1]))


def test_configuration_values_from_pulumi_are_decoded(set_engine_config: Any) -> None:
    set_engine_config(
        {
            "aws:region": "us-west-2",
            "gpumpi:target": '{"kind":"eks","kubernetesVersion":1.3}',
            "gpumpi:pools": '[{"name":"train"}]',
            "gpumpi:costCenter": "1234",
            "gpumpi:tags": "{no json",
            "other:thing": "{}",
        }
    )
    target = {"kind": "eks", "kubernetesVersion": 1.3}
    expected = {"target": target, "pools": [{"name": "train"}], "costCenter": "1234", "tags": "{no json"}
    assert stack_file.read_running_stack() == RawStack("prod", "us-west-2", expected)


def test_secret_value_from_pulumi_is_reported_and_not_shown(set_engine_config: Any) -> None:
    set_engine_config(
        {"aws:region": "us-west-2", "gpumpi:target": '{"kind":"eks"}', "gpumpi:costCenter": "hush"}, ["gpumpi:costCenter"]
    )
    raw = stack_file.read_running_stack()
    with pytest.raises(SettingsError) as caught:
        load_settings(raw.values, stack=raw.stack, region=raw.region)
    assert str(caught.value) == "costCenter: is encrypted, but no setting here is a secret. Write it in plain text."


def test_settings_from_file_and_from_pulumi_are_equal(tmp_path: Path, set_engine_config: Any) -> None:
    file = read_stack(
        tmp_path,
        """
        config:
          aws:region: us-west-2
          gpumpi:costCenter: 0123
          gpumpi:target: {kind: eks, kubernetesVersion: 1.30, admins: [yes, 08]}
          gpumpi:platform:
        """,
        name="Pulumi.prod.yaml",
    )
    set_engine_config(  # the values that Pulumi 3.246.0 passes for the same file
        {
            "aws:region": "us-west-2",
            "gpumpi:costCenter": "83",
            "gpumpi:target": '{"admins":["yes",8],"kind":"eks","kubernetesVersion":1.3}',
            "gpumpi:platform": "",
        }
    )
    assert file == stack_file.read_running_stack()
