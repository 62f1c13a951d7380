"""Images that the nodes of a stack pull during `up`."""

from infra import preflight
from infra.config import stack_file
from infra.config.stack_file import RawStack
from localcloud.images.catalogue import MONITORING_IMAGES, PLATFORM_IMAGES, TRAINER_IMAGES, Image


def list_platform_images(raw: RawStack) -> tuple[Image, ...]:
    """Return the images of a stack's platform.

    The result is empty for stacks without a platform, for stacks with values of a wrong type, and for existing clusters,
    whose nodes may use other registries. The Pulumi program itself applies the rules and reports the problems.
    """
    if stack_file.uses_existing_cluster(raw.values):
        return ()
    parsed = preflight.parse_aws_stack(raw)
    settings = parsed.model
    if parsed.problems or settings is None or not settings.installs_platform:
        return ()
    platform = settings.platform
    trainer = TRAINER_IMAGES if platform.trainer else ()
    monitoring = MONITORING_IMAGES if platform.monitoring else ()
    return (*PLATFORM_IMAGES, *trainer, *monitoring)
