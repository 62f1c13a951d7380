"""Tags of EKS resources: clusters, node groups, add-ons, access entries, Pod Identity associations.

https://docs.aws.amazon.com/eks/latest/APIReference/API_TagResource.html
"""

from collections.abc import Iterator

from localcloud.aws.call import Call
from localcloud.aws.eks.state import Cluster, Record, check_tags, clusters
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("eks", "TagResource")
def tag_resource(call: Call) -> Record:
    tags = _find_tags(call)
    try:
        check_tags({**tags, **call.params["tags"]})
    except AwsError as error:
        raise AwsError("BadRequestException", error.message) from error
    tags.update(call.params["tags"])
    return {}


@operation("eks", "UntagResource")
def untag_resource(call: Call) -> Record:
    tags = _find_tags(call)
    for key in call.params["tagKeys"]:
        tags.pop(key, None)
    return {}


@operation("eks", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> Record:
    return {"tags": _find_tags(call)}


def _find_tags(call: Call) -> dict[str, str]:
    arn = call.params["resourceArn"]
    if not arn.startswith("arn:") or ":eks:" not in arn:
        raise AwsError("BadRequestException", f"Invalid ARN: {arn}")
    for cluster in clusters(call).values():
        for resource_arn, record in list_resources(cluster):
            if resource_arn == arn:
                tags: dict[str, str] = record["tags"]
                return tags
    raise AwsError("NotFoundException", "Resource was not found")


def list_resources(cluster: Cluster) -> Iterator[tuple[str, Record]]:
    yield cluster.record["arn"], cluster.record
    for group in cluster.node_groups.values():
        yield group.record["nodegroupArn"], group.record
    for addon in cluster.addons.values():
        yield addon.record["addonArn"], addon.record
    for entry in cluster.access_entries.values():
        yield entry.record["accessEntryArn"], entry.record
    for association in cluster.associations.values():
        yield association["associationArn"], association
