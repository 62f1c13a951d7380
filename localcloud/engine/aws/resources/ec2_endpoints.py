"""VPC endpoints and flow logs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    build_ec2_arn,
    find_first,
    generate_client_token,
    ignore_gone,
    raise_if_unsuccessful,
    report_partial_creation,
    retry,
    to_request,
    to_state,
    wait_until_gone,
)

ENDPOINT_TIMEOUT = 10 * MINUTE
ENDPOINT_ABSENT = ("InvalidVpcEndpointId.NotFound", "InvalidVpcEndpoint.NotFound")
IAM_PROPAGATION = 2 * MINUTE


@register
class VpcEndpoint(Resource):
    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    title = "EC2 VPC Endpoint"
    CREATE_NAMES = {
        "vpcId": "VpcId",
        "serviceName": "ServiceName",
        "vpcEndpointType": "VpcEndpointType",
        "policy": "PolicyDocument",
        "routeTableIds": "RouteTableIds",
        "subnetIds": "SubnetIds",
        "securityGroupIds": "SecurityGroupIds",
    }
    OUTPUTS = {
        "vpcId": "VpcId",
        "serviceName": "ServiceName",
        "vpcEndpointType": "VpcEndpointType",
        "policy": "PolicyDocument",
        "privateDnsEnabled": "PrivateDnsEnabled",
        "networkInterfaceIds": "NetworkInterfaceIds",
        "ownerId": "OwnerId",
        "requesterManaged": "RequesterManaged",
        "state": "State",
    }
    MEMBERS = {"routeTableIds": "RouteTableIds", "subnetIds": "SubnetIds", "securityGroupIds": "SecurityGroupIds"}
    props = {
        "vpcId": Prop(replace=True),
        "serviceName": Prop(replace=True),
        "vpcEndpointType": Prop(replace=True, default="Gateway"),
        "policy": Prop(json=True),
        "privateDnsEnabled": Prop(),
        **dict.fromkeys(MEMBERS, Prop(unordered=True)),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request = {"VpcEndpointType": "Gateway", **to_request(args, self.CREATE_NAMES)}
        endpoint = aws.client("ec2").create_vpc_endpoint(
            ClientToken=generate_client_token(),
            PrivateDnsEnabled=bool(args.get("privateDnsEnabled")),
            TagSpecifications=build_tag_specification("vpc-endpoint", args),
            **request,
        )["VpcEndpoint"]
        id = str(endpoint["VpcEndpointId"])
        with report_partial_creation(id):
            aws.wait(f"EC2 VPC Endpoint ({id}) create", lambda: self._describe_if_available(aws, id), timeout=ENDPOINT_TIMEOUT)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        endpoint = self._describe(aws, id)
        if endpoint is None:
            return None
        entries = endpoint.get("DnsEntries") or []
        return {
            **to_state(endpoint, self.OUTPUTS),
            **parse_tags(endpoint.get("Tags")),
            **self._describe_prefix_list(aws, endpoint["ServiceName"]),
            "arn": build_ec2_arn(aws, f"vpc-endpoint/{id}", endpoint.get("OwnerId")),
            "dnsEntries": [to_state(entry, {"dnsName": "DnsName", "hostedZoneId": "HostedZoneId"}) for entry in entries],
            "routeTableIds": endpoint.get("RouteTableIds") or [],
            "securityGroupIds": [group["GroupId"] for group in endpoint.get("Groups") or []],
            "subnetIds": endpoint.get("SubnetIds") or [],
        }

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Replace the endpoint if its private DNS setting changes, unless it is an interface endpoint: EC2 can change
        the setting in place only for interface endpoints."""
        return frozenset() if old.get("vpcEndpointType") == "Interface" else changed & {"privateDnsEnabled"}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        changes: dict[str, Any] = {}
        for name in changed & self.MEMBERS.keys():
            before, after = set(old.get(name) or []), set(new.get(name) or [])
            changes[f"Add{self.MEMBERS[name]}"] = sorted(after - before)
            changes[f"Remove{self.MEMBERS[name]}"] = sorted(before - after)
        if "policy" in changed:
            changes.update({"PolicyDocument": new["policy"]} if new.get("policy") else {"ResetPolicy": True})
        if "privateDnsEnabled" in changed:
            changes["PrivateDnsEnabled"] = bool(new.get("privateDnsEnabled"))
        if changes:
            nonempty_changes = {key: value for key, value in changes.items() if value != []}
            aws.client("ec2").modify_vpc_endpoint(VpcEndpointId=id, **nonempty_changes)
            aws.wait(f"EC2 VPC Endpoint ({id}) update", lambda: self._describe_if_available(aws, id), timeout=ENDPOINT_TIMEOUT)
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(*ENDPOINT_ABSENT):
            answer = aws.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[id])
            raise_if_unsuccessful(answer.get("Unsuccessful") or [], "DeleteVpcEndpoints")
            wait_until_gone(aws, f"EC2 VPC Endpoint ({id})", partial(self._describe, aws, id), timeout=ENDPOINT_TIMEOUT)

    @staticmethod
    def _describe_prefix_list(aws: Aws, service: str) -> State:
        """Return the id and the CIDR blocks of a gateway endpoint's prefix list."""
        response = aws.client("ec2").describe_prefix_lists(Filters=[{"Name": "prefix-list-name", "Values": [service]}])
        lists = response["PrefixLists"]
        return to_state(lists[0], {"prefixListId": "PrefixListId", "cidrBlocks": "Cidrs"}) if lists else {}

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        endpoint = find_first(
            lambda: aws.client("ec2").describe_vpc_endpoints(VpcEndpointIds=[id])["VpcEndpoints"],
            *ENDPOINT_ABSENT,
        )
        return None if endpoint is None or endpoint["State"].lower() == "deleted" else endpoint

    def _describe_if_available(self, aws: Aws, id: str) -> dict[str, Any] | None:
        endpoint = self._describe(aws, id)
        if endpoint and endpoint["State"].lower() in ("failed", "rejected"):
            reason = (endpoint.get("LastError") or {}).get("Message", "")
            raise Failed(f"waiting for EC2 VPC Endpoint ({id}): unexpected state '{endpoint['State']}': {reason}")
        return endpoint if endpoint and endpoint["State"].lower() in ("available", "pendingacceptance") else None


@register
class FlowLog(Resource):
    token = "aws:ec2/flowLog:FlowLog"
    title = "Flow Log"
    WATCHED: Mapping[str, str] = {"vpcId": "VPC", "subnetId": "Subnet", "eniId": "NetworkInterface"}
    CREATE_NAMES = {
        "iamRoleArn": "DeliverLogsPermissionArn",
        "logDestination": "LogDestination",
        "logDestinationType": "LogDestinationType",
        "logFormat": "LogFormat",
        "maxAggregationInterval": "MaxAggregationInterval",
        "trafficType": "TrafficType",
    }
    props = {
        **dict.fromkeys(WATCHED, Prop(replace=True, default="")),
        "iamRoleArn": Prop(replace=True, default=""),
        "logDestination": Prop(replace=True),
        "logDestinationType": Prop(replace=True, default="cloud-watch-logs"),
        "logFormat": Prop(replace=True),
        "maxAggregationInterval": Prop(replace=True, default=600),
        "trafficType": Prop(replace=True),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        watched = next((name for name in self.WATCHED if args.get(name)), "vpcId")
        request = {"LogDestinationType": "cloud-watch-logs", **to_request(args, self.CREATE_NAMES)}
        if "LogDestination" in request:
            request["LogDestination"] = request["LogDestination"].removesuffix(":*")
        create = partial(
            aws.client("ec2").create_flow_logs,
            ClientToken=generate_client_token(),
            ResourceType=self.WATCHED[watched],
            ResourceIds=[args[watched]],
            TagSpecifications=build_tag_specification("vpc-flow-log", args),
            **request,
        )
        new_role = "Unable to assume given IAM role"  # a new IAM role takes seconds to propagate
        what = f"Flow Log ({args[watched]})"
        answer = retry(aws, what, create, "InvalidParameter", containing=new_role, timeout=IAM_PROPAGATION)
        raise_if_unsuccessful(answer.get("Unsuccessful") or [], "CreateFlowLogs")
        return str(answer["FlowLogIds"][0])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        log = find_first(lambda: aws.client("ec2").describe_flow_logs(FlowLogIds=[id])["FlowLogs"], "InvalidFlowLogId.NotFound")
        if log is None:
            return None
        prefix = {"vpc": "vpcId", "subnet": "subnetId", "eni": "eniId"}[log["ResourceId"].split("-")[0]]
        return {
            prefix: log["ResourceId"],
            **to_state(log, self.CREATE_NAMES),
            **parse_tags(log.get("Tags")),
            "arn": build_ec2_arn(aws, f"vpc-flow-log/{id}"),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone("InvalidFlowLogId.NotFound"):
            answer = aws.client("ec2").delete_flow_logs(FlowLogIds=[id])
            raise_if_unsuccessful(answer.get("Unsuccessful") or [], "DeleteFlowLogs")
