"""EKS add-ons."""

from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.eks_requests import GONE, describe_resource, format_timestamp, update_tags, wait_for_update
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_gone, await_status, format_health_issues
from localcloud.engine.aws.resources.requests import ignore_gone, report_partial_creation, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, build_tag_state, get_program_tags

TIMEOUT = 20 * MINUTE
DELETE_TIMEOUT = 40 * MINUTE
IDENTITY = {"roleArn": "roleArn", "serviceAccount": "serviceAccount"}


@register
class Addon(Resource):
    token = "aws:eks/addon:Addon"
    title = "EKS Add-On"
    CREATE_NAMES = {
        "clusterName": "clusterName",
        "addonName": "addonName",
        "addonVersion": "addonVersion",
        "configurationValues": "configurationValues",
        "serviceAccountRoleArn": "serviceAccountRoleArn",
    }
    CHANGED_WITH = frozenset({"addonVersion", "configurationValues", "serviceAccountRoleArn", "podIdentityAssociations"})
    props = {
        "clusterName": Prop(replace=True),
        "addonName": Prop(replace=True),
        "addonVersion": Prop(),
        "configurationValues": Prop(),
        "podIdentityAssociations": Prop(unordered=True, default=[], fields=dict.fromkeys(IDENTITY, Prop())),
        "serviceAccountRoleArn": Prop(default=""),
        "resolveConflictsOnCreate": Prop(write_only=True),
        "resolveConflictsOnUpdate": Prop(write_only=True),
        "preserve": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = to_request(args, {**self.CREATE_NAMES, "resolveConflictsOnCreate": "resolveConflicts"})
        if args.get("podIdentityAssociations"):
            request["podIdentityAssociations"] = build_pod_identities(args)
        aws.client("eks").create_addon(**request, tags=get_program_tags(args))
        id = f"{args['clusterName']}:{args['addonName']}"
        with report_partial_creation(id):
            # DEGRADED is transient: CoreDNS is degraded until the first node joins.
            doing, pending = f"EKS Add-On ({id}) create", ("CREATING", "DEGRADED")
            await_status(aws, doing, lambda: self._read_status(aws, id), target="ACTIVE", pending=pending, timeout=TIMEOUT)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        addon = self._describe(aws, id)
        if addon is None:
            return None
        return {
            **to_state(addon, {**self.CREATE_NAMES, "arn": "addonArn"}),
            **build_tag_state(addon.get("tags")),
            "podIdentityAssociations": [self._read_pod_identity(aws, arn) for arn in addon.get("podIdentityAssociations") or ()],
            "createdAt": format_timestamp(addon["createdAt"]),
            "modifiedAt": format_timestamp(addon["modifiedAt"]),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "tags" in changed:
            update_tags(aws, old["arn"], old, new)
        if not changed & self.CHANGED_WITH:
            return
        request = to_request(
            new, {"resolveConflictsOnUpdate": "resolveConflicts", "serviceAccountRoleArn": "serviceAccountRoleArn"}
        )
        if "serviceAccountRoleArn" in changed:
            request["serviceAccountRoleArn"] = new.get("serviceAccountRoleArn") or ""
        for name in ("addonVersion", "configurationValues"):
            if name in changed:
                request[name] = new[name]
        if "podIdentityAssociations" in changed:
            request["podIdentityAssociations"] = build_pod_identities(new)
        key = self._parse_id(id)
        answer = aws.client("eks").update_addon(**key, **request)
        owner = {"name": key["clusterName"], "addonName": key["addonName"]}
        wait_for_update(aws, f"EKS Add-On ({id}) update", answer["update"], owner, TIMEOUT)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        preserve = {"preserve": True} if state.get("preserve") else {}
        with ignore_gone(GONE):
            aws.client("eks").delete_addon(**self._parse_id(id), **preserve)
        failures = ["DELETE_FAILED"]
        await_gone(
            aws, f"EKS Add-On ({id}) delete", lambda: self._read_status(aws, id), failures=failures, timeout=DELETE_TIMEOUT
        )

    @staticmethod
    def _parse_id(id: str) -> dict[str, str]:
        cluster, _, addon = id.partition(":")
        return {"clusterName": cluster, "addonName": addon}

    @staticmethod
    def _read_pod_identity(aws: Aws, arn: str) -> State:
        """Look up a Pod Identity association by its ARN, `...:podidentityassociation/<cluster>/<id>`."""
        _, cluster, id = arn.split("/")
        association = aws.client("eks").describe_pod_identity_association(clusterName=cluster, associationId=id)["association"]
        return to_state(association, IDENTITY)

    def _describe(self, aws: Aws, id: str) -> dict[str, Any] | None:
        return describe_resource(aws, "describe_addon", "addon", **self._parse_id(id))

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        addon = self._describe(aws, id)
        return Seen(addon["status"], format_health_issues(addon.get("health"))) if addon else None


def build_pod_identities(args: Args) -> list[dict[str, str]]:
    return [to_request(association, IDENTITY) for association in args.get("podIdentityAssociations") or ()]
