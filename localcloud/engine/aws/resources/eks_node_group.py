"""EKS managed node groups."""

from collections.abc import Mapping
from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.eks_requests import GONE, describe_resource, update_tags, wait_for_update
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_gone, await_status, format_health_issues
from localcloud.engine.aws.resources.requests import ignore_gone, report_partial_creation, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, build_tag_state, get_program_tags

TIMEOUT = 60 * MINUTE


def _build_identity_map(*names: str) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


SCALING = _build_identity_map("desiredSize", "maxSize", "minSize")
UPDATE = _build_identity_map("maxUnavailable", "maxUnavailablePercentage", "updateStrategy")
TAINT = _build_identity_map("effect", "key", "value")
OVERRIDE = _build_identity_map("minRepairWaitTimeMins", "nodeMonitoringCondition", "nodeUnhealthyReason", "repairAction")
REPAIR = _build_identity_map(
    "enabled",
    "maxParallelNodesRepairedCount",
    "maxParallelNodesRepairedPercentage",
    "maxUnhealthyNodeThresholdCount",
    "maxUnhealthyNodeThresholdPercentage",
)


def _build_props(names: Mapping[str, str]) -> dict[str, Prop]:
    return dict.fromkeys(names, Prop())


@register
class NodeGroup(Resource):
    token = "aws:eks/nodeGroup:NodeGroup"
    title = "EKS Node Group"
    auto_name = AutoName(property="nodeGroupName", unless=("nodeGroupNamePrefix",))
    CREATE_NAMES = {
        **_build_identity_map(
            "amiType", "capacityType", "clusterName", "diskSize", "instanceTypes", "labels", "releaseVersion", "version"
        ),
        "nodeRoleArn": "nodeRole",
        "subnetIds": "subnets",
    }
    OUTPUTS = {**CREATE_NAMES, "nodeGroupName": "nodegroupName", "arn": "nodegroupArn", "status": "status"}
    props = {
        "clusterName": Prop(replace=True),
        "nodeGroupName": Prop(replace=True),
        "nodeGroupNamePrefix": Prop(replace=True, write_only=True),
        "nodeRoleArn": Prop(replace=True),
        "subnetIds": Prop(replace=True, unordered=True),
        "amiType": Prop(replace=True),
        "capacityType": Prop(replace=True),
        "diskSize": Prop(replace=True),
        "instanceTypes": Prop(replace=True),
        "labels": Prop(default={}),
        "taints": Prop(unordered=True, default=[], fields={"effect": Prop(), "key": Prop(), "value": Prop(default="")}),
        "launchTemplate": Prop(default={}, fields={"id": Prop(replace=True), "name": Prop(replace=True), "version": Prop()}),
        "version": Prop(),
        "releaseVersion": Prop(),
        "forceUpdateVersion": Prop(write_only=True, default=False),
        "scalingConfig": Prop(fields=_build_props(SCALING)),
        "updateConfig": Prop(fields=_build_props(UPDATE)),
        "nodeRepairConfig": Prop(
            fields={
                **_build_props(REPAIR),
                "nodeRepairConfigOverrides": Prop(unordered=True, default=[], fields=_build_props(OVERRIDE)),
            }
        ),
        **TAGS,
    }

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Replace the group when a launch template is added or removed."""
        both = bool(old.get("launchTemplate")) and bool(new.get("launchTemplate"))
        return frozenset() if both else changed & {"launchTemplate"}

    def create(self, aws: Aws, args: Args) -> str:
        name = choose_physical_name(args, "nodeGroupName", "nodeGroupNamePrefix")
        response = aws.client("eks").create_nodegroup(nodegroupName=name, **build_creation_request(args))
        id = f"{args['clusterName']}:{response['nodegroup']['nodegroupName']}"
        with report_partial_creation(id):
            doing = f"EKS Node Group ({id}) create"
            await_status(aws, doing, lambda: self._read_status(aws, id), target="ACTIVE", pending=["CREATING"], timeout=TIMEOUT)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        node_group = self._describe(aws, id)
        if node_group is None:
            return None
        template = to_state(node_group.get("launchTemplate") or {}, _build_identity_map("id", "name", "version"))
        repair = node_group.get("nodeRepairConfig")
        return {
            **to_state(node_group, self.OUTPUTS),
            **build_tag_state(node_group.get("tags")),
            **({"launchTemplate": template} if template else {}),
            "scalingConfig": to_state(node_group["scalingConfig"], SCALING),
            "taints": [to_state(taint, TAINT) for taint in node_group.get("taints") or ()],
            **({"updateConfig": to_state(node_group["updateConfig"], UPDATE)} if node_group.get("updateConfig") else {}),
            **({"nodeRepairConfig": build_repair_state(repair)} if repair else {}),
            "resources": [build_resources_state(node_group.get("resources") or {})],
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        """Update the node version first, then the scaling and other settings, as the official provider does."""
        if "tags" in changed:
            update_tags(aws, old["arn"], old, new)
        if changed & {"launchTemplate", "releaseVersion", "version"}:
            self._update_version(aws, id, new, changed)
        configured = build_config_request(old, new, changed)
        if configured:
            answer = aws.client("eks").update_nodegroup_config(**self._parse_id(id), **configured)
            self._wait_for_update(aws, id, "config", answer["update"])

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(GONE):
            aws.client("eks").delete_nodegroup(**self._parse_id(id))
        failures = ["DELETE_FAILED"]
        await_gone(aws, f"EKS Node Group ({id}) delete", lambda: self._read_status(aws, id), failures=failures, timeout=TIMEOUT)

    def _update_version(self, aws: Aws, id: str, new: Args, changed: frozenset[str]) -> None:
        """Update the node version. The request always includes the launch template, by its ID if both ID and name are known."""
        request: dict[str, Any] = {name: new[name] for name in ("releaseVersion", "version") if name in changed and new.get(name)}
        if new.get("launchTemplate"):
            request["launchTemplate"] = build_template_request(new["launchTemplate"])
        forced = bool(new.get("forceUpdateVersion"))
        answer = aws.client("eks").update_nodegroup_version(**self._parse_id(id), **request, force=forced)
        self._wait_for_update(aws, id, "version", answer["update"])

    def _wait_for_update(self, aws: Aws, id: str, what: str, update: dict[str, Any]) -> None:
        key = self._parse_id(id)
        owner = {"name": key["clusterName"], "nodegroupName": key["nodegroupName"]}
        wait_for_update(aws, f"EKS Node Group ({id}) {what} update", update, owner)

    @staticmethod
    def _parse_id(id: str) -> dict[str, str]:
        cluster, _, name = id.partition(":")
        return {"clusterName": cluster, "nodegroupName": name}

    def _describe(self, aws: Aws, id: str) -> dict[str, Any] | None:
        return describe_resource(aws, "describe_nodegroup", "nodegroup", **self._parse_id(id))

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        node_group = self._describe(aws, id)
        return Seen(node_group["status"], format_health_issues(node_group.get("health"))) if node_group else None


def build_creation_request(args: Args) -> dict[str, Any]:
    request = to_request(args, NodeGroup.CREATE_NAMES)
    if args.get("launchTemplate"):
        request["launchTemplate"] = build_template_request(args["launchTemplate"])
    if args.get("taints"):
        request["taints"] = [to_request(taint, TAINT) for taint in args["taints"]]
    if args.get("updateConfig"):
        request["updateConfig"] = to_request(args["updateConfig"], UPDATE)
    if args.get("nodeRepairConfig"):
        request["nodeRepairConfig"] = build_repair_request(args["nodeRepairConfig"])
    return {**request, "scalingConfig": to_request(args["scalingConfig"], SCALING), "tags": get_program_tags(args)}


def build_config_request(old: State, new: Args, changed: frozenset[str]) -> dict[str, Any]:
    """Return an UpdateNodegroupConfig request. For labels and taints, the request contains only the differences. Other
    changed settings are included in full."""
    request: dict[str, Any] = {}
    if "labels" in changed:
        before, after = old.get("labels") or {}, new.get("labels") or {}
        written = {name: value for name, value in after.items() if before.get(name) != value}
        removed = [name for name in before if name not in after]
        request["labels"] = _drop_empty(addOrUpdateLabels=written, removeLabels=removed)
    if "taints" in changed:
        was, taints = ([to_request(taint, TAINT) for taint in side.get("taints") or ()] for side in (old, new))
        taint_keys = {(taint["key"], taint["effect"]) for taint in taints}
        gone = [taint for taint in was if (taint["key"], taint["effect"]) not in taint_keys]
        request["taints"] = _drop_empty(addOrUpdateTaints=[taint for taint in taints if taint not in was], removeTaints=gone)
    if "scalingConfig" in changed:
        request["scalingConfig"] = to_request(new["scalingConfig"], SCALING)
    if "updateConfig" in changed:
        request["updateConfig"] = to_request(new["updateConfig"], UPDATE)
    if "nodeRepairConfig" in changed:
        request["nodeRepairConfig"] = build_repair_request(new["nodeRepairConfig"])
    return request


def build_template_request(template: Args) -> dict[str, Any]:
    """Reference the launch template by its ID if the ID is known, or else by name. EKS rejects a request that contains both."""
    names = ("id", "version") if template.get("id") else ("name", "version")
    return to_request(template, _build_identity_map(*names))


def build_repair_request(repair: Args) -> dict[str, Any]:
    overrides = [to_request(override, OVERRIDE) for override in repair.get("nodeRepairConfigOverrides") or ()]
    return {**to_request(repair, REPAIR), **_drop_empty(nodeRepairConfigOverrides=overrides)}


def build_repair_state(repair: Mapping[str, Any]) -> State:
    overrides = [to_state(override, OVERRIDE) for override in repair.get("nodeRepairConfigOverrides") or ()]
    return {**to_state(repair, REPAIR), "nodeRepairConfigOverrides": overrides}


def build_resources_state(resources: Mapping[str, Any]) -> State:
    return {
        "autoscalingGroups": [{"name": group["name"]} for group in resources.get("autoScalingGroups") or ()],
        "remoteAccessSecurityGroupId": resources.get("remoteAccessSecurityGroup", ""),
    }


def _drop_empty(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
