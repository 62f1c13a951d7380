"""ECR repositories for job images, and how short image names in jobs are resolved."""

import json
from typing import Any

from infra.components.image_repositories import KEPT_IMAGES, UNTAGGED_DAYS
from infra.facts import manifests
from infra.facts.gather import stack_manifests
from infra.jobs.cluster import CONFIG_MAP_KEY, ClusterDescription
from infra.plan.image_repositories import PROJECT_IMAGES
from localcloud import mirror
from tests.program.engine import IMAGE_EXPIRY, IMAGE_REPOSITORY, Deployment, deploy
from tests.pure.world import ACCOUNT, REGION, facts, pool, settings

ADDRESS = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/gpumpi-test"


def job(name: str, image: str) -> dict[str, Any]:
    return {"name": name, "pool": "train", "workers": 2, "image": image, "command": ["python3", "train.py"]}


def stack(*jobs: dict[str, Any], **platform: Any) -> Deployment:
    public = {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}
    asked = settings(pool(), target=public, jobs=list(jobs), platform={"install": True, **platform})
    upstream = manifests.load(stack_manifests(asked), str(mirror.ensure(print)))
    return deploy(asked, facts(asked, manifests=upstream))


def test_there_are_repositories_for_the_project_s_images_and_the_short_names_of_jobs() -> None:
    deployment = stack(
        job("a", "team/train:1"), job("b", "team/train:2"), job("c", "docker.io/library/ubuntu:24.04"), imageRepositories=True
    )
    names = {resource.inputs["name"] for resource in deployment.created(IMAGE_REPOSITORY)}
    assert names == {f"gpumpi-test/{name}" for name in (*PROJECT_IMAGES, "team/train")}


def test_repositories_are_immutable_encrypted_scanned_and_not_deleted_with_images() -> None:
    for resource in stack(imageRepositories=True).created(IMAGE_REPOSITORY):
        assert resource.inputs["imageTagMutability"] == "IMMUTABLE"
        assert resource.inputs["encryptionConfigurations"] == [{"encryptionType": "KMS"}]
        assert resource.inputs["imageScanningConfiguration"] == {"scanOnPush": True}
        assert "forceDelete" not in resource.inputs


def test_each_repository_expires_untagged_and_old_images() -> None:
    cloud = stack(imageRepositories=True)
    policies = cloud.created(IMAGE_EXPIRY)
    assert {rule.inputs["repository"] for rule in policies} == {repo.inputs["name"] for repo in cloud.created(IMAGE_REPOSITORY)}
    for policy in policies:
        rules = [rule["selection"] for rule in json.loads(policy.inputs["policy"])["rules"]]
        by_age = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": UNTAGGED_DAYS}
        assert rules == [by_age, {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": KEPT_IMAGES}]


def test_without_the_setting_there_are_no_repositories() -> None:
    deployment = stack(imageRepository="registry.example.com/team")
    assert deployment.created(IMAGE_REPOSITORY) == []
    assert deployment.outputs["imageRepository"] == "registry.example.com/team"


def test_jobs_and_the_description_use_the_stack_s_repository() -> None:
    for platform, expected in (
        ({"imageRepositories": True}, ADDRESS),
        ({"imageRepository": "registry.example.com/team"}, "registry.example.com/team"),
        ({"imageRepositories": True, "imageRegistry": "mirror.example.com/all"}, ADDRESS),
    ):
        cloud = stack(job("mnist", "train:1"), **platform)
        replicas = cloud.only("kubernetes:kubeflow.org/v2beta1:MPIJob", "mnist").inputs["spec"]["mpiReplicaSpecs"]
        images = {replica["template"]["spec"]["containers"][0]["image"] for replica in replicas.values()}
        assert images == {f"{expected}/train:1"}
        (description,) = [item for item in cloud.created("kubernetes:core/v1:ConfigMap") if CONFIG_MAP_KEY in item.inputs["data"]]
        assert ClusterDescription.from_json(description.inputs["data"][CONFIG_MAP_KEY]).image_repository == expected
