"""`plan` looks up the images of a stack's jobs."""

import json
from typing import Any

import pytest

from infra.checks import images
from infra.checks.images import EFA, EXIST, Found, has_marks
from infra.checks.model import Answer
from infra.facts import registry_api
from infra.settings.stack import Settings
from localcloud.aws.account import ACCOUNT
from localcloud.aws.permissions import organization
from testkit.aws_clients import REGION, Client
from tests.pure.world import facts, pool, settings

pytestmark = pytest.mark.usefixtures("account_credentials", "aws")
ECR = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
MANIFEST = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": {"digest": "sha256:0"},
    "layers": [],
}


def stack(image: str, instance_type: str = "g5.8xlarge", workers: int = 2) -> Settings:
    job = {"name": "train", "pool": "train", "image": image, "command": ["train"], "workers": workers}
    platform = {"install": True, "imageRepositories": True}
    return settings(pool(instance_type=instance_type), platform=platform, jobs=[job])


def answers(of: Settings) -> dict[str, Answer]:
    return {answer.check: answer for answer in images.answers(of, facts(of))}


def push(aws: Client, repository: str, tag: str) -> None:
    aws("ecr").create_repository(repositoryName=repository)
    aws("ecr").put_image(repositoryName=repository, imageTag=tag, imageManifest=json.dumps(MANIFEST))


def test_a_stack_without_jobs_gets_no_image_checks() -> None:
    assert answers(settings(pool())) == {}


def test_an_image_of_the_stack_s_own_repository_is_looked_up_with_its_short_name(aws: Client) -> None:
    push(aws, "gpumpi-test/mpi", "1")
    by_check = answers(stack("mpi:1"))
    assert (by_check[EXIST].verdict, by_check[EFA].verdict) == ("yes", "yes")
    missing = answers(stack("mpi:2"))[EXIST]
    assert missing.verdict == "no"
    assert missing.sentences == (f"jobs[0].image: {ECR}/gpumpi-test/mpi:2 does not exist. Push it, or correct the name.",)


def test_a_repository_that_up_will_create_is_unknown() -> None:
    by_check = answers(stack("mpi:1"))[EXIST]
    assert by_check.verdict == "unknown"
    assert "the repository gpumpi-test/mpi does not exist; `pulumi up` creates it" in by_check.sentences[0]


def test_a_missing_repository_of_another_owner_fails_the_check() -> None:
    assert answers(stack(f"{ECR}/team/train:1"))[EXIST].verdict == "no"


def test_a_repository_that_the_caller_may_not_read_is_unknown() -> None:
    organization.deny("ecr:DescribeImages")
    by_check = answers(stack(f"{ECR}/team/train:1"))[EXIST]
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
def test_images_elsewhere_are_looked_up_in_their_registry(
    configuration: dict[str, Any] | None, verdicts: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "configuration", lambda image, architecture: configuration)
    by_check = answers(stack("registry.example.com/train:1"))
    assert tuple(by_check[check].verdict if check in by_check else None for check in (EXIST, EFA)) == verdicts


def test_a_registry_that_does_not_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(image: str, architecture: str) -> None:
        raise registry_api.NotAnswered("registry.example.com requires a login")

    monkeypatch.setattr(images, "configuration", refuse)
    answer = answers(stack("registry.example.com/train:1"))[EXIST]
    assert answer.sentences == ("registry.example.com/train:1: registry.example.com requires a login",)


@pytest.mark.parametrize(("instance_type", "workers"), [("g5.8xlarge", 1), ("g5.xlarge", 2)])
def test_only_jobs_between_nodes_with_efa_need_it(instance_type: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "look", lambda image, settings: Found("yes"))
    assert EFA not in answers(stack("registry.example.com/train:1", instance_type, workers))


def test_efa_is_recognized_in_a_build_step() -> None:
    assert has_marks({"history": [{"created_by": "RUN ./aws-efa-installer/efa_installer.sh -y"}]})
    assert not has_marks({"history": [{"created_by": "RUN apt-get install openmpi-bin"}]})
