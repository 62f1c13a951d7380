"""ECR repositories for job images."""

import json
from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components.children import build_child_args
from infra.naming import COMPONENT, Naming

UNTAGGED_DAYS: Final = 14
KEPT_IMAGES: Final = 50


class ImageRepositories(pulumi.ComponentResource):
    """Creates one ECR repository `CLUSTER/IMAGE` per image. Each repository
    - has immutable tags, is encrypted, and scans images on push
    - expires untagged images after UNTAGGED_DAYS, and keeps only the newest KEPT_IMAGES
    - cannot be deleted while it contains images
    """

    def __init__(self, name: str, naming: Naming, images: Sequence[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:ImageRepositories", name, None, opts)
        for image in images:
            repository = aws.ecr.Repository(
                **build_child_args(self, naming, f"{name}-{image}"),
                name=f"{naming.cluster}/{image}",
                image_tag_mutability="IMMUTABLE",
                image_scanning_configuration={"scan_on_push": True},
                # Encrypt with the AWS managed key `aws/ecr`, so that nodes need no key permissions to pull images.
                # https://docs.aws.amazon.com/AmazonECR/latest/userguide/encryption-at-rest.html
                encryption_configurations=[{"encryption_type": "KMS"}],
            )
            options = pulumi.ResourceOptions(parent=self)
            policy = json.dumps(EXPIRY)
            aws.ecr.LifecyclePolicy(f"{name}-{image}-lifecycle", repository=repository.name, policy=policy, opts=options)
        self.register_outputs({})


def _build_expiration_rule(priority: int, description: str, **selection: object) -> dict[str, object]:
    return {"rulePriority": priority, "description": description, "selection": selection, "action": {"type": "expire"}}


EXPIRY: Final = {
    "rules": [
        _build_expiration_rule(
            1,
            f"Delete untagged images after {UNTAGGED_DAYS} days",
            tagStatus="untagged",
            countType="sinceImagePushed",
            countUnit="days",
            countNumber=UNTAGGED_DAYS,
        ),
        _build_expiration_rule(
            2,
            f"Keep the newest {KEPT_IMAGES} images",
            tagStatus="any",
            countType="imageCountMoreThan",
            countNumber=KEPT_IMAGES,
        ),
    ]
}
"""https://docs.aws.amazon.com/AmazonECR/latest/userguide/LifecyclePolicies.html"""
