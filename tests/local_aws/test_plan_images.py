"""`plan` looks up the images of a stack's jobs."""

import json
from typing import Any

import pytest

from infra.checks import images
from infra.checks.images import EFA, EXIST, Found, mentions_efa
from infra.checks.model import Answer
from infra.facts import registry_api
from infra.settings.stack import Settings
from localcloud.aws.account import ACCOUNT
from localcloud.aws.permissions import organization
from testkit.aws_clients import REGION, Client
from tests.pure.world import account_facts, pool, settings

pytestmark = pytest.mark.usefixtures("account_credentials", "aws")
ECR = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
MANIFEST = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": {"digest": "sha256:0"},
    "layers": [],
}


def make_settings(image: str, instance_type: str = "g5.8xlarge", workers: int = 2) -> Settings:
    job = {"name": "train", "pool": "train", "image": image, "command": ["train"], "workers": workers}
    platform = {"install": True, "imageRepositories": True}
    return settings(pool(instance_type=instance_type), platform=platform, jobs=[job])


def list_answers_by_image(of: Settings) -> dict[str, Answer]:
    return {answer.check: answer for answer in images.check_images(of, account_facts(of))}


def push_image(aws: Client, repository: str, tag: str) -> None:
    aws("ecr").create_repository(repositoryName=repository)
    aws("ecr").put_image(repositoryName=repository, imageTag=tag, imageManifest=json.dumps(MANIFEST))


def test_a_stack_without_jobs_gets_no_image_checks() -> None:
    assert list_answers_by_image(settings(pool())) == {}


def test_an_image_in_the_repository_of_the_stack_is_looked_up_by_its_short_name(aws: Client) -> None:
    push_image(aws, "gpumpi-test/mpi", "1")
    by_check = list_answers_by_image(make_settings("mpi:1"))
    assert (by_check[EXIST].verdict, by_check[EFA].verdict) == ("yes", "yes")
    missing = list_answers_by_image(make_settings("mpi:2"))[EXIST]
    assert missing.verdict == "no"
    assert missing.sentences == (f"jobs[0].image: {ECR}/gpumpi-test/mpi:2 does not exist. Push it, or correct the name.",)


def test_an_image_in_a_repository_that_up_will_create_is_unknown() -> None:
    by_check = list_answers_by_image(make_settings("mpi:1"))[EXIST]
    assert by_check.verdict == "unknown"
    assert "the repository gpumpi-test/mpi does not exist; `pulumi up` creates it" in by_check.sentences[0]


def test_a_missing_repository_in_another_account_fails_the_check() -> None:
    assert list_answers_by_image(make_settings(f"{ECR}/team/train:1"))[EXIST].verdict == "no"


def test_a_repository_that_the_caller_cannot_read_is_unknown() -> None:
    organization.deny_action("ecr:DescribeImages")
    by_check = list_answers_by_image(make_settings(f"{ECR}/team/train:1"))[EXIST]
    assert (by_check.verdict, "you may not call ecr:DescribeImages" in by_check.sentences[0]) == ("unknown", True)


@pytest.mark.parametrize(
    ("configuration", "verdicts"),
    [
        ({"config": {"Env": ["LD_LIBRARY_PATH=/opt/amazon/efa/lib"]}}, ("yes", "yes")),
        ({"config": {"Env": []}}, ("yes", "unknown")),
        (None, ("no", None)),
    ],
    ids=["with EFA", "without", "missing"],
)
def test_images_in_other_registries_are_looked_up_there(
    configuration: dict[str, Any] | None, verdicts: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "read_image_config", lambda image, architecture: configuration)
    by_check = list_answers_by_image(make_settings("registry.example.com/train:1"))
    assert tuple(by_check[check].verdict if check in by_check else None for check in (EXIST, EFA)) == verdicts


def test_an_image_in_an_unreachable_registry_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_not_answered(image: str, architecture: str) -> None:
        raise registry_api.NotAnswered("registry.example.com requires a login")

    monkeypatch.setattr(images, "read_image_config", raise_not_answered)
    answer = list_answers_by_image(make_settings("registry.example.com/train:1"))[EXIST]
    assert answer.sentences == ("registry.example.com/train:1: registry.example.com requires a login",)


@pytest.mark.parametrize(("instance_type", "workers"), [("g5.8xlarge", 1), ("g5.xlarge", 2)])
def test_only_multi_node_jobs_on_efa_nodes_need_efa_in_the_image(
    instance_type: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "look_up_image", lambda image, settings: Found("yes"))
    assert EFA not in list_answers_by_image(make_settings("registry.example.com/train:1", instance_type, workers))


def test_an_efa_installation_is_recognized_in_an_image_build_step() -> None:
    assert mentions_efa({"history": [{"created_by": "RUN ./aws-efa-installer/efa_installer.sh -y"}]})
    assert not mentions_efa({"history": [{"created_by": "RUN apt-get install openmpi-bin"}]})
