"""Test cases for ECR repositories and lifecycle policies."""

import json
from typing import Any

from tests.engine.cases.case import Case, names, value
from tests.engine.world import World


def policy(days: int) -> str:
    selection = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": days}
    return json.dumps({"rules": [{"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}]})


def repository(world: World) -> str:
    name = world.name("images")
    ecr = world.client("ecr")
    if name not in [entry["repositoryName"] for entry in ecr.describe_repositories()["repositories"]]:
        ecr.create_repository(repositoryName=name)
    return name


def other_repository(world: World) -> Any:
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
        needed=names(),
        updates={
            "imageTagMutability": value("MUTABLE"),
            "imageScanningConfiguration": value({"scanOnPush": False}),
            "forceDelete": value(True),
            "tags": value({"Name": "other"}),
        },
        removals=names("imageTagMutability", "tags"),
        replaces={
            "name": lambda world: world.name("team/other"),
            "encryptionConfigurations": value([{"encryptionType": "AES256"}]),
        },
        drift=lambda world, id: world.client("ecr").put_image_tag_mutability(repositoryName=id, imageTagMutability="MUTABLE"),
        drifted=names("imageTagMutability"),
    ),
    Case(
        "aws:ecr/lifecyclePolicy:LifecyclePolicy",
        make_inputs=lambda world: {"repository": repository(world), "policy": policy(14)},
        needed=names("repository", "policy"),
        replaces={"repository": other_repository, "policy": value(policy(7))},
    ),
]
