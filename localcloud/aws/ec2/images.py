"""moto's image objects for the public AMIs in `localcloud.aws.images`."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.parse import default_timestamp_parser
from moto.ec2.models.amis import Ami, AmiBackend

from localcloud.aws.images import IMAGES


class PublicImage(Ami):
    """AMI owned by another account.

    moto's own class would create a volume and a snapshot in the local account for each AMI.
    """

    def __init__(self, backend: Any, image_id: str, root_gib: int, **facts: Any) -> None:
        self.ec2_backend = backend
        self.id = image_id
        self.root_gib = root_gib
        self.snapshot_id = "snap-" + hashlib.sha256(image_id.encode()).hexdigest()[:17]
        self.state, self.image_type, self.hypervisor = "available", "machine", "xen"
        self.virtualization_type, self.root_device_type, self.sriov, self.boot_mode = "hvm", "ebs", "simple", "uefi-preferred"
        self.kernel_id = self.platform = self.instance_id = None
        self.product_codes = set()
        self.launch_permissions = [{"Group": "all"}]
        for name, value in facts.items():
            setattr(self, name, value)
        self.image_location = f"{self.owner_alias or self.owner_id}/{self.name}"

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        volume = {
            "SnapshotId": self.snapshot_id,
            "VolumeSize": self.root_gib,
            "VolumeType": "gp3",
            "DeleteOnTermination": True,
            "Encrypted": False,
        }
        return [{"DeviceName": self.root_device_name, "Ebs": volume}]


@dataclass(frozen=True)
class OwnImage:
    """AMI that the account owns from the start, as if it had been built earlier."""

    name: str
    description: str
    created: str
    tags: Mapping[str, str]

    def id(self, region: str) -> str:
        return "ami-" + hashlib.sha256(f"{region}/own/{self.name}".encode()).hexdigest()[:17]


_own: list[OwnImage] = []


def add_own_image(image: OwnImage) -> None:
    """Add the AMI to all regions of all accounts that are first used after this call."""
    _own.append(image)


def extend_moto() -> None:
    backend: Any = AmiBackend
    backend._load_amis = _load_images


def make_own_image(backend: Any, tags: Mapping[str, str]) -> Any:
    """Create moto's object for an AMI built with amis/, without adding it to the account's images."""
    name = f"gpumpi-{'-'.join(tags.values())}"
    return _build_image_record(backend, OwnImage(name, "Built with the templates in amis/", "2026-07-01T00:00:00.000Z", tags))


def _build_image_record(backend: Any, own: OwnImage) -> Any:
    created = PublicImage(
        backend,
        own.id(backend.region_name),
        8,
        name=own.name,
        description=own.description,
        owner_id=backend.account_id,
        owner_alias=None,
        architecture="x86_64",
        root_device_name="/dev/sda1",
        creation_date=default_timestamp_parser(own.created),
    )
    created.launch_permissions = []
    created.add_tags(dict(own.tags))
    return created


def _load_images(backend: Any) -> None:
    for parameters in _own:
        created = _build_image_record(backend, parameters)
        backend.amis[created.id] = created
    for image in IMAGES:
        image_id = image.id(backend.region_name)
        backend.amis[image_id] = PublicImage(
            backend,
            image_id,
            image.root_gib,
            name=image.name,
            description=image.description,
            owner_id=image.owner,
            owner_alias="amazon",
            architecture=image.architecture,
            root_device_name=image.root_device,
            creation_date=default_timestamp_parser(image.created),
        )
