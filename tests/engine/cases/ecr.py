"""Test cases for ECR repositories and lifecycle policies."""

import json
from typing import Any

from tests.engine.cases.case import Case, make_constant, property_names
from tests.engine.world import World


def build_lifecycle_policy(days: int) -> str:
    selection = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": days}
    return json.dumps({"rules": [{"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}]})


def ensure_repository(world: World) -> str:
    name = world.name("images")
    ecr = world.client("ecr")
    if name not in [entry["repositoryName"] for entry in ecr.describe_repositories()["repositories"]]:
        ecr.create_repository(repositoryName=name)
    return name


def create_other_repository(world: World) -> Any:
    return world.client("ecr").create_repository(repositoryName=world.name("others"))["repository"]["repositoryName"]


CASES = [
    Case(
        "aws:ecr/repository:Repository",
        make_inputs=lambda world: {
            "name": world.name("team/train"),
            "imageTagMutability": "IMMUTABLE",
            "imageScanningConfiguration": {"scanOnPush": True},
            "encryptionConfigurations": [{"encryptionType": "KMS", "kmsKey": world.key}],
            "forceDelete": False,
            "tags": {"Name": "it"},
        },
        needed=property_names(),
        updates={
            "imageTagMutability": make_constant("MUTABLE"),
            "imageScanningConfiguration": make_constant({"scanOnPush": False}),
            "forceDelete": make_constant(True),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("imageTagMutability", "tags"),
        replaces={
            "name": lambda world: world.name("team/other"),
            "encryptionConfigurations": make_constant([{"encryptionType": "AES256"}]),
        },
        drift=lambda world, id: world.client("ecr").put_image_tag_mutability(repositoryName=id, imageTagMutability="MUTABLE"),
        drifted=property_names("imageTagMutability"),
    ),
    Case(
        "aws:ecr/lifecyclePolicy:LifecyclePolicy",
        make_inputs=lambda world: {"repository": ensure_repository(world), "policy": build_lifecycle_policy(14)},
        needed=property_names("repository", "policy"),
        replaces={"repository": create_other_repository, "policy": make_constant(build_lifecycle_policy(7))},
    ),
]
