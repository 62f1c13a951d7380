"""ECR repositories for job images, and how short image names in jobs are resolved."""

import json
from typing import Any

from infra.components.image_repositories import KEPT_IMAGES, UNTAGGED_DAYS
from infra.facts import manifests
from infra.facts.gather import list_stack_manifests
from infra.jobs.cluster import CONFIG_MAP_KEY, ClusterDescription
from infra.plan.image_repositories import PROJECT_IMAGES
from localcloud import mirror
from tests.program.engine import IMAGE_EXPIRY, IMAGE_REPOSITORY, Deployment, deploy
from tests.pure.world import ACCOUNT, REGION, account_facts, pool, settings

ADDRESS = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/gpumpi-test"


def make_job(name: str, image: str) -> dict[str, Any]:
    return {"name": name, "pool": "train", "workers": 2, "image": image, "command": ["python3", "train.py"]}


def deploy_stack(*jobs: dict[str, Any], **platform: Any) -> Deployment:
    public = {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}
    asked = settings(pool(), target=public, jobs=list(jobs), platform={"install": True, **platform})
    upstream = manifests.load_manifests(list_stack_manifests(asked), str(mirror.ensure_mirror(print)))
    return deploy(asked, account_facts(asked, manifests=upstream))


def test_repositories_are_created_for_project_images_and_short_image_names_of_jobs() -> None:
    deployment = deploy_stack(
        make_job("a", "team/train:1"),
        make_job("b", "team/train:2"),
        make_job("c", "docker.io/library/ubuntu:24.04"),
        imageRepositories=True,
    )
    names = {resource.inputs["name"] for resource in deployment.find_resources(IMAGE_REPOSITORY)}
    assert names == {f"gpumpi-test/{name}" for name in (*PROJECT_IMAGES, "team/train")}


def test_repositories_are_immutable_encrypted_scanned_and_never_deleted_with_images() -> None:
    for resource in deploy_stack(imageRepositories=True).find_resources(IMAGE_REPOSITORY):
        assert resource.inputs["imageTagMutability"] == "IMMUTABLE"
        assert resource.inputs["encryptionConfigurations"] == [{"encryptionType": "KMS"}]
        assert resource.inputs["imageScanningConfiguration"] == {"scanOnPush": True}
        assert "forceDelete" not in resource.inputs


def test_untagged_and_old_images_expire_in_each_repository() -> None:
    cloud = deploy_stack(imageRepositories=True)
    policies = cloud.find_resources(IMAGE_EXPIRY)
    assert {rule.inputs["repository"] for rule in policies} == {
        repo.inputs["name"] for repo in cloud.find_resources(IMAGE_REPOSITORY)
    }
    for policy in policies:
        rules = [rule["selection"] for rule in json.loads(policy.inputs["policy"])["rules"]]
        by_age = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": UNTAGGED_DAYS}
        assert rules == [by_age, {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": KEPT_IMAGES}]


def test_no_repositories_are_created_unless_configured() -> None:
    deployment = deploy_stack(imageRepository="registry.example.com/team")
    assert deployment.find_resources(IMAGE_REPOSITORY) == []
    assert deployment.outputs["imageRepository"] == "registry.example.com/team"


def test_jobs_and_the_cluster_description_use_the_repository_of_the_stack() -> None:
    for platform, expected in (
        ({"imageRepositories": True}, ADDRESS),
        ({"imageRepository": "registry.example.com/team"}, "registry.example.com/team"),
        ({"imageRepositories": True, "imageRegistry": "mirror.example.com/all"}, ADDRESS),
    ):
        cloud = deploy_stack(make_job("mnist", "train:1"), **platform)
        replicas = cloud.find_resource("kubernetes:kubeflow.org/v2beta1:MPIJob", "mnist").inputs["spec"]["mpiReplicaSpecs"]
        images = {replica["template"]["spec"]["containers"][0]["image"] for replica in replicas.values()}
        assert images == {f"{expected}/train:1"}
        (description,) = [
            item for item in cloud.find_resources("kubernetes:core/v1:ConfigMap") if CONFIG_MAP_KEY in item.inputs["data"]
        ]
        assert ClusterDescription.from_json(description.inputs["data"][CONFIG_MAP_KEY]).image_repository == expected
