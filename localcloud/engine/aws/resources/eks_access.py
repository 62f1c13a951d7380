"""EKS access: access entries for IAM principals, and Pod Identity associations for pods."""

from collections.abc import Mapping
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.eks_requests import GONE, describe_resource, format_timestamp, update_tags
from localcloud.engine.aws.resources.requests import ignore_gone, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, build_tag_state, get_program_tags

CLUSTER = {"clusterName": "clusterName"}


@register
class AccessEntry(Resource):
    token = "aws:eks/accessEntry:AccessEntry"
    title = "EKS Access Entry"
    CREATE_NAMES = {
        **CLUSTER,
        "principalArn": "principalArn",
        "type": "type",
        "kubernetesGroups": "kubernetesGroups",
        "userName": "username",
    }
    props = {
        "clusterName": Prop(replace=True),
        "principalArn": Prop(replace=True),
        "type": Prop(replace=True, default="STANDARD"),
        "kubernetesGroups": Prop(unordered=True),
        "userName": Prop(),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = {"type": "STANDARD", **to_request(args, self.CREATE_NAMES)}
        aws.client("eks").create_access_entry(**request, tags=get_program_tags(args))
        return f"{args['clusterName']}:{args['principalArn']}"

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        entry = describe_resource(aws, "describe_access_entry", "accessEntry", **self._parse_id(id))
        if entry is None:
            return None
        return {
            **to_state(entry, {**self.CREATE_NAMES, "accessEntryArn": "accessEntryArn"}),
            **build_tag_state(entry.get("tags")),
            "createdAt": format_timestamp(entry["createdAt"]),
            "modifiedAt": format_timestamp(entry["modifiedAt"]),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if changed & {"kubernetesGroups", "userName"}:
            groups = {"kubernetesGroups": new.get("kubernetesGroups") or old.get("kubernetesGroups") or []}
            user = to_request({**old, **new}, {"userName": "username"})
            aws.client("eks").update_access_entry(**self._parse_id(id), **groups, **user)
        if "tags" in changed:
            update_tags(aws, old["accessEntryArn"], old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(GONE):
            aws.client("eks").delete_access_entry(**self._parse_id(id))

    @staticmethod
    def _parse_id(id: str) -> dict[str, str]:
        cluster, _, principal = id.partition(":")
        return {"clusterName": cluster, "principalArn": principal}


@register
class AccessPolicyAssociation(Resource):
    token = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    title = "EKS Access Policy Association"
    props = {
        "clusterName": Prop(replace=True),
        "principalArn": Prop(replace=True),
        "policyArn": Prop(replace=True),
        "accessScope": Prop(replace=True, fields={"type": Prop(), "namespaces": Prop(unordered=True, default=[])}),
    }

    def create(self, aws: Aws, args: Args) -> str:
        scope = to_request(args["accessScope"], {"type": "type", "namespaces": "namespaces"})
        id = "#".join(str(args[name]) for name in ("clusterName", "principalArn", "policyArn"))
        aws.client("eks").associate_access_policy(**self._parse_id(id), accessScope=scope)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        association = self._find(aws, self._parse_id(id))
        if association is None:
            return None
        scope = association["accessScope"]
        return {
            **self._parse_id(id),
            "accessScope": {"type": scope["type"], "namespaces": scope.get("namespaces") or []},
            "associatedAt": format_timestamp(association["associatedAt"]),
            "modifiedAt": format_timestamp(association["modifiedAt"]),
        }

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(GONE):
            aws.client("eks").disassociate_access_policy(**self._parse_id(id))

    @staticmethod
    def _parse_id(id: str) -> dict[str, str]:
        cluster, principal, policy = id.split("#")
        return {"clusterName": cluster, "principalArn": principal, "policyArn": policy}

    @staticmethod
    def _find(aws: Aws, key: Mapping[str, str]) -> dict[str, Any] | None:
        eks = aws.client("eks")
        owner = {name: key[name] for name in ("clusterName", "principalArn")}
        try:
            pages = list(eks.get_paginator("list_associated_access_policies").paginate(**owner))
        except eks.exceptions.ResourceNotFoundException:
            return None
        policies = [policy for page in pages for policy in page["associatedAccessPolicies"]]
        return next((policy for policy in policies if policy["policyArn"] == key["policyArn"]), None)


@register
class PodIdentityAssociation(Resource):
    token = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    title = "EKS Pod Identity Association"
    CREATE_NAMES = {
        **CLUSTER,
        "namespace": "namespace",
        "serviceAccount": "serviceAccount",
        "roleArn": "roleArn",
        "targetRoleArn": "targetRoleArn",
        "disableSessionTags": "disableSessionTags",
    }
    OUTPUTS = {**CREATE_NAMES, "associationArn": "associationArn", "associationId": "associationId", "externalId": "externalId"}
    props = {
        "clusterName": Prop(replace=True),
        "namespace": Prop(replace=True),
        "serviceAccount": Prop(replace=True),
        "roleArn": Prop(),
        "targetRoleArn": Prop(default=""),
        "disableSessionTags": Prop(default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = to_request(args, self.CREATE_NAMES)
        response = aws.client("eks").create_pod_identity_association(**request, tags=get_program_tags(args))
        return str(response["association"]["associationId"])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        key = {"clusterName": str(recorded["clusterName"]), "associationId": id}
        association = describe_resource(aws, "describe_pod_identity_association", "association", **key)
        return association and {**to_state(association, self.OUTPUTS), **build_tag_state(association.get("tags"))}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if changed & {"roleArn", "targetRoleArn", "disableSessionTags"}:
            aws.client("eks").update_pod_identity_association(
                clusterName=old["clusterName"],
                associationId=id,
                roleArn=new["roleArn"],
                disableSessionTags=bool(new.get("disableSessionTags")),
                **({"targetRoleArn": new.get("targetRoleArn") or ""} if "targetRoleArn" in changed else {}),
            )
        if "tags" in changed:
            update_tags(aws, old["associationArn"], old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(GONE):
            aws.client("eks").delete_pod_identity_association(clusterName=state["clusterName"], associationId=id)
