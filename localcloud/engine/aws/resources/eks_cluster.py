"""EKS clusters (control planes)."""

from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.eks_requests import GONE, describe_resource, format_timestamp, update_tags, wait_for_update
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_gone, await_status, format_health_issues
from localcloud.engine.aws.resources.requests import ignore_gone, report_partial_creation, retry, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, build_tag_state, get_program_tags

CREATE_TIMEOUT = 30 * MINUTE
BUSY_TIMEOUT = 60 * MINUTE
DELETE_TIMEOUT = 15 * MINUTE
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
NETWORK = {"ipFamily": "ipFamily", "serviceIpv4Cidr": "serviceIpv4Cidr"}
ENDPOINT = ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")


@register
class Cluster(Resource):
    token = "aws:eks/cluster:Cluster"
    title = "EKS Cluster"
    auto_name = AutoName(unless=())
    recomputed = frozenset({"platformVersion"})
    nested_outputs = frozenset({"vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId"})
    OUTPUTS = {
        "name": "name",
        "arn": "arn",
        "endpoint": "endpoint",
        "certificateAuthority": "certificateAuthority",
        "platformVersion": "platformVersion",
        "roleArn": "roleArn",
        "status": "status",
        "version": "version",
        "upgradePolicy": "upgradePolicy",
        "deletionProtection": "deletionProtection",
    }
    props = {
        "name": Prop(replace=True),
        "roleArn": Prop(replace=True),
        "version": Prop(),
        "forceUpdateVersion": Prop(write_only=True, default=False),
        "accessConfig": Prop(
            fields={"authenticationMode": Prop(), "bootstrapClusterCreatorAdminPermissions": Prop(replace=True, default=True)}
        ),
        "bootstrapSelfManagedAddons": Prop(replace=True, write_only=True, default=True),
        "deletionProtection": Prop(default=False),
        "enabledClusterLogTypes": Prop(unordered=True, default=[]),
        "encryptionConfig": Prop(
            default={}, fields={"provider": Prop(fields={"keyArn": Prop()}), "resources": Prop(unordered=True)}
        ),
        "kubernetesNetworkConfig": Prop(fields=dict.fromkeys(NETWORK, Prop(replace=True))),
        "upgradePolicy": Prop(fields={"supportType": Prop()}),
        "vpcConfig": Prop(
            fields={
                "subnetIds": Prop(unordered=True),
                "securityGroupIds": Prop(unordered=True, default=[]),
                "endpointPrivateAccess": Prop(default=False),
                "endpointPublicAccess": Prop(default=True),
                "publicAccessCidrs": Prop(unordered=True),
            }
        ),
        **TAGS,
    }

    def find_recomputed_outputs(self, changed: frozenset[str]) -> frozenset[str]:
        return self.recomputed if "version" in changed else frozenset()

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Replace the cluster if the program removes encryption, since EKS cannot disable encryption:
        https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html"""
        return changed & {"encryptionConfig"} if not new.get("encryptionConfig") else frozenset()

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("eks").create_cluster(**build_creation_request(args))
        id = str(response["cluster"]["name"])
        with report_partial_creation(id):
            look = lambda: self._read_status(aws, id)  # noqa: E731
            doing, pending = f"EKS Cluster ({id}) create", ("CREATING", "PENDING")
            await_status(aws, doing, look, target="ACTIVE", pending=pending, timeout=CREATE_TIMEOUT)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        cluster = self._describe(aws, id)
        if cluster is None:
            return None
        encryption = [setting for setting in cluster.get("encryptionConfig") or () if setting.get("provider")]
        enabled = [setup["types"] for setup in cluster["logging"]["clusterLogging"] if setup["enabled"]]
        issuer = ((cluster.get("identity") or {}).get("oidc") or {}).get("issuer", "")
        return {
            **to_state(cluster, self.OUTPUTS),
            "accessConfig": self._build_access_state(cluster["accessConfig"], recorded),
            "bootstrapSelfManagedAddons": recorded.get("bootstrapSelfManagedAddons", True),
            "createdAt": format_timestamp(cluster["createdAt"]),
            "enabledClusterLogTypes": [name for names in enabled for name in names],
            **({"encryptionConfig": encryption[0]} if encryption else {}),
            "identities": [{"oidcs": [{"issuer": issuer}]}],
            "kubernetesNetworkConfig": to_state(cluster["kubernetesNetworkConfig"], NETWORK),
            "vpcConfig": dict(cluster["resourcesVpcConfig"]),
            **build_tag_state(cluster.get("tags")),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        """Apply changes one at a time, as EKS requires. Upgrade the version before other settings, as the official
        provider does."""
        if "tags" in changed:
            update_tags(aws, old["arn"], old, new)
        if "version" in changed:
            self._upgrade_version(aws, id, new)
        if "accessConfig" in changed:
            mode = to_request(new["accessConfig"], {"authenticationMode": "authenticationMode"})
            self._update_config(aws, id, "access configuration", accessConfig=mode)
        if "encryptionConfig" in changed:
            self._enable_encryption(aws, id, old, new)
        if "enabledClusterLogTypes" in changed:
            self._update_config(aws, id, "logging", logging=build_logging_request(new))
        if "upgradePolicy" in changed:
            self._update_config(aws, id, "upgrade policy", upgradePolicy=new["upgradePolicy"])
        if "deletionProtection" in changed:
            is_protected = bool(new.get("deletionProtection"))
            self._update_config(aws, id, "deletion protection", deletionProtection=is_protected)
        if "vpcConfig" in changed:
            for part in build_vpc_requests(old["vpcConfig"], new["vpcConfig"]):
                self._update_config(aws, id, "VPC configuration", resourcesVpcConfig=part)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Delete the cluster. Retry while an update of the cluster is in progress."""
        eks, doing = aws.client("eks"), f"EKS Cluster ({id}) delete"
        remove = lambda: eks.delete_cluster(name=id)  # noqa: E731
        with ignore_gone(GONE):
            retry(aws, doing, remove, "ResourceInUseException", containing="in progress", timeout=BUSY_TIMEOUT)
        await_gone(aws, doing, lambda: self._read_status(aws, id), failures=["FAILED"], timeout=DELETE_TIMEOUT)

    def _upgrade_version(self, aws: Aws, id: str, args: Args) -> None:
        forced = {"force": True} if args.get("forceUpdateVersion") else {}
        answer = aws.client("eks").update_cluster_version(name=id, version=args["version"], **forced)
        wait_for_update(aws, f"EKS Cluster ({id}) version update", answer["update"], {"name": id})

    @staticmethod
    def _update_config(aws: Aws, id: str, what: str, **change: Any) -> None:
        answer = aws.client("eks").update_cluster_config(name=id, **change)
        wait_for_update(aws, f"EKS Cluster ({id}) {what} update", answer["update"], {"name": id})

    @staticmethod
    def _enable_encryption(aws: Aws, id: str, old: State, new: Args) -> None:
        """Enable encryption of Secrets. EKS cannot disable the encryption later.

        If the key changes, the official provider does nothing and shows the same diff again. The local provider raises an error.
        """
        if old.get("encryptionConfig"):
            raise Failed(f"EKS Cluster ({id}): the key that encrypts its secrets cannot be changed; replace the cluster")
        answer = aws.client("eks").associate_encryption_config(clusterName=id, encryptionConfig=[new["encryptionConfig"]])
        wait_for_update(aws, f"EKS Cluster ({id}) encryption config association", answer["update"], {"name": id})

    @staticmethod
    def _build_access_state(configuration: State, recorded: State) -> State:
        """Return the access configuration. AWS does not report whether the creator is an administrator, so keep the
        value from the state.

        https://github.com/aws/containers-roadmap/issues/185
        """
        was = (recorded.get("accessConfig") or {}).get("bootstrapClusterCreatorAdminPermissions")
        return {
            "authenticationMode": configuration["authenticationMode"],
            "bootstrapClusterCreatorAdminPermissions": True if was is None else was,
        }

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        return describe_resource(aws, "describe_cluster", "cluster", name=id)

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        cluster = self._describe(aws, id)
        return Seen(cluster["status"], format_health_issues(cluster.get("health"))) if cluster else None


def build_creation_request(args: Args) -> dict[str, Any]:
    names = (
        "name",
        "roleArn",
        "version",
        "kubernetesNetworkConfig",
        "upgradePolicy",
        "deletionProtection",
        "bootstrapSelfManagedAddons",
    )
    request = to_request(args, dict(zip(names, names, strict=True)))
    if args.get("accessConfig"):
        request["accessConfig"] = {"bootstrapClusterCreatorAdminPermissions": True, **args["accessConfig"]}
    if args.get("encryptionConfig"):
        request["encryptionConfig"] = [args["encryptionConfig"]]
    return {
        **request,
        "resourcesVpcConfig": {"endpointPrivateAccess": False, "endpointPublicAccess": True, **args["vpcConfig"]},
        "logging": build_logging_request(args),
        "tags": get_program_tags(args),
    }


def build_logging_request(args: Args) -> dict[str, Any]:
    """Return a request that enables the log types in `args` and disables all others."""
    enabled = args.get("enabledClusterLogTypes") or []
    disabled = [name for name in LOG_TYPES if name not in enabled]
    return {"clusterLogging": [{"types": types, "enabled": on} for types, on in ((enabled, True), (disabled, False)) if types]}


def build_vpc_requests(old: State, new: Args) -> list[dict[str, Any]]:
    """Return requests that update the VPC configuration. EKS requires separate requests for the endpoint, the subnets
    and the security groups."""
    requests: list[dict[str, Any]] = []
    before = {"endpointPrivateAccess": False, "endpointPublicAccess": True, **old}
    after = {
        "endpointPrivateAccess": False,
        "endpointPublicAccess": True,
        "publicAccessCidrs": old.get("publicAccessCidrs"),
        **new,
    }
    if any(_sort_if_list(before.get(name)) != _sort_if_list(after.get(name)) for name in ENDPOINT):
        requests.append({name: after[name] for name in ENDPOINT if after.get(name) or name != "publicAccessCidrs"})
    for name in ("subnetIds", "securityGroupIds"):
        if _sort_if_list(old.get(name)) != _sort_if_list(new.get(name)):
            requests.append({name: new.get(name) or []})
    return requests


def _sort_if_list(value: Any) -> Any:
    return sorted(value or []) if isinstance(value, list | tuple | None) else value
