"""VPC flow logs. CreateFlowLogs succeeds even if some resources fail. Its response lists those resources.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFlowLogs.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

RESOURCE_TYPES = ("VPC", "Subnet", "NetworkInterface")
TRAFFIC_TYPES = ("ACCEPT", "REJECT", "ALL")
DESTINATIONS = ("cloud-watch-logs", "s3", "kinesis-data-firehose")


@operation("ec2", "CreateFlowLogs")
def create_flow_logs(call: Call) -> dict[str, Any]:
    params = call.params
    _check_params(params)
    call.backend._validate_request(
        params.get("LogGroupName"),
        params.get("LogDestination"),
        params.get("LogDestinationType", "cloud-watch-logs"),
        params.get("MaxAggregationInterval", 600),
        params.get("DeliverLogsPermissionArn"),
    )
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "vpc-flow-log").get("vpc-flow-log", {})
    stop_dry_run(call)
    created: list[str] = []
    failed: list[dict[str, Any]] = []
    for resource_id in params["ResourceIds"]:
        try:
            flow_log = _create_flow_log(call, resource_id)
        except Exception as error:
            if not hasattr(error, "code") or not hasattr(error, "message"):
                raise
            failed.append({"ResourceId": resource_id, "Error": {"Code": str(error.code), "Message": str(error.message)}})
        else:
            flow_log.add_tags(tags)
            created.append(flow_log.id)
    return {"FlowLogIds": created, "Unsuccessful": failed, "ClientToken": params.get("ClientToken")}


def _check_params(params: dict[str, Any]) -> None:
    if not params.get("ResourceIds"):
        raise build_missing_parameter_error("ResourceId")
    for name, allowed in (("ResourceType", RESOURCE_TYPES), ("TrafficType", TRAFFIC_TYPES), ("LogDestinationType", DESTINATIONS)):
        if name in params and params[name] not in allowed:
            raise build_invalid_value_error(params[name], name, f"It must be one of {', '.join(allowed)}.")
    if "TrafficType" not in params:
        raise build_missing_parameter_error("TrafficType")
    destination = params.get("LogDestinationType", "cloud-watch-logs")
    if destination == "cloud-watch-logs" and not str(params.get("DeliverLogsPermissionArn", "")).startswith("arn:"):
        raise AwsError("InvalidParameter", "DeliverLogsPermissionArn can't be empty if LogDestinationType is cloud-watch-logs.")


def _create_flow_log(call: Call, resource_id: str) -> Any:
    params = call.params
    destination = params.get("LogDestination")
    group = params.get("LogGroupName")
    if destination and ":log-group:" in destination:
        group = destination.split(":log-group:")[1].removesuffix(":*")
    for flow_log in call.backend.flow_logs.values():
        same_place = (flow_log.log_group_name, flow_log.log_destination) in ((group, destination), (group, None))
        if flow_log.resource_id == resource_id and same_place:
            raise AwsError(
                "FlowLogAlreadyExists", "Error. There is an existing Flow Log with the same configuration and log destination."
            )
    logs, problems = call.backend.create_flow_logs(
        resource_type=params["ResourceType"],
        resource_ids=[resource_id],
        traffic_type=params["TrafficType"],
        deliver_logs_permission_arn=params.get("DeliverLogsPermissionArn"),
        log_destination_type=params.get("LogDestinationType"),
        log_destination=destination,
        log_group_name=group,
        log_format=params.get("LogFormat"),
        max_aggregation_interval=params.get("MaxAggregationInterval"),
    )
    if problems:
        _, code, message = problems[0]
        raise AwsError(code, message)
    return logs[0]
