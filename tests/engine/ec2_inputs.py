"""Inputs for each EC2 type. Together they set every property of the type's handler to a value other than AWS's
default.
"""

import base64
import json
from collections.abc import Callable, Mapping

from localcloud.engine.aws.resource import Args
from tests.engine import ec2_world as w

TAGS = {"Name": "thing", "gpumpi:stack": "test"}
READ_ONLY = {"Effect": "Allow", "Principal": "*", "Action": "s3:Get*", "Resource": "*"}
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [READ_ONLY]})
USER_DATA = base64.b64encode(b"#!/bin/sh\ntrue\n").decode()

Inputs = Callable[[w.World], Args]


def build_security_group_inputs(world: w.World) -> Args:
    """Security group rules with every kind of source, and one rule for all traffic within the group."""
    bundle = {
        "protocol": "tcp",
        "fromPort": 22,
        "toPort": 23,
        "description": "shell",
        "self": True,
        "cidrBlocks": ["10.1.0.0/16", "10.2.0.0/16"],
        "ipv6CidrBlocks": ["2001:db8::/32"],
        "securityGroups": [world.group],
    }
    storage = {"protocol": "tcp", "fromPort": 443, "toPort": 443, "prefixListIds": [world.prefix_list]}
    everything = {"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}
    return {"ingress": [bundle, storage, everything], "egress": [{**bundle, "description": "out"}, storage]}


ACTION_SIZES: Args = {"minSize": 1, "maxSize": -1, "desiredCapacity": 2}  # -1 keeps the group's size
ACTION: Args = {"scheduledActionName": "block-starts", "startTime": "2090-01-01T11:30:00Z", **ACTION_SIZES}
DISK: Args = {
    "deleteOnTermination": "true",
    "encrypted": "true",
    "iops": 4000,
    "kmsKeyId": f"arn:aws:kms:{w.REGION}:{w.ACCOUNT}:key/1234",
    "snapshotId": "snap-0123456789abcdef0",
    "throughput": 250,
    "volumeInitializationRate": 100,
    "volumeSize": 200,
    "volumeType": "gp3",
}
RESERVED: Args = {
    "capacityReservationPreference": "capacity-reservations-only",
    "capacityReservationTarget": {
        "capacityReservationId": "cr-0123456789abcdef0",
        "capacityReservationResourceGroupArn": f"arn:aws:resource-groups:{w.REGION}:{w.ACCOUNT}:group/reserved",
    },
}
SPOT: Args = {
    "marketType": "spot",
    "spotOptions": {
        "blockDurationMinutes": 60,
        "instanceInterruptionBehavior": "terminate",
        "maxPrice": "9.99",
        "spotInstanceType": "one-time",
    },
}
PLACE: Args = {
    "affinity": "host",
    "availabilityZone": "us-west-2a",
    "groupId": "pg-0123456789abcdef0",
    "groupName": "close",
    "hostId": "h-0123456789abcdef0",
    "hostResourceGroupArn": f"arn:aws:resource-groups:{w.REGION}:{w.ACCOUNT}:group/hosts",
    "partitionNumber": 2,
    "spreadDomain": "rack",
    "tenancy": "host",
}


def build_template_inputs(world: w.World) -> Args:
    return {
        "name": "nodes",
        "description": "first",
        "defaultVersion": 1,
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": DISK},
            {"deviceName": "/dev/sdb", "virtualName": "ephemeral0"},
            {"deviceName": "/dev/sdc", "noDevice": "true"},
        ],
        "capacityReservationSpecification": RESERVED,
        "cpuOptions": {"coreCount": 48, "threadsPerCore": 1},
        "disableApiStop": True,
        "disableApiTermination": True,
        "ebsOptimized": "true",
        "enclaveOptions": {"enabled": True},
        "hibernationOptions": {"configured": True},
        "iamInstanceProfile": {"arn": f"arn:aws:iam::{w.ACCOUNT}:instance-profile/nodes", "name": "nodes"},
        "imageId": "ami-0123456789abcdef0",
        "instanceInitiatedShutdownBehavior": "terminate",
        "instanceMarketOptions": SPOT,
        "instanceType": "p5.48xlarge",
        "keyName": "mine",
        "maintenanceOptions": {"autoRecovery": "disabled"},
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIpv6": "disabled",
            "httpPutResponseHopLimit": 2,
            "httpTokens": "required",
            "instanceMetadataTags": "enabled",
        },
        "monitoring": {"enabled": True},
        "networkInterfaces": [
            build_interface_inputs(world),
            {"deviceIndex": 1, "networkCardIndex": 1, "interfaceType": "efa-only"},
        ],
        "networkPerformanceOptions": {"bandwidthWeighting": "vpc-1"},
        "placement": PLACE,
        "privateDnsNameOptions": {
            "enableResourceNameDnsARecord": True,
            "enableResourceNameDnsAaaaRecord": True,
            "hostnameType": "resource-name",
        },
        "tagSpecifications": [{"resourceType": kind, "tags": TAGS} for kind in ("instance", "volume", "network-interface")],
        "userData": USER_DATA,
        "vpcSecurityGroupIds": [world.group, world.other_security_group],
        "tags": TAGS,
    }


def build_interface_inputs(world: w.World) -> Args:
    return {
        "associateCarrierIpAddress": "true",
        "associatePublicIpAddress": "false",
        "connectionTrackingSpecification": {"tcpEstablishedTimeout": 350, "udpStreamTimeout": 100, "udpTimeout": 40},
        "deleteOnTermination": "true",
        "description": "first",
        "deviceIndex": 2,
        "enaQueueCount": 4,
        "enaSrdSpecification": {"enaSrdEnabled": True, "enaSrdUdpSpecification": {"enaSrdUdpEnabled": True}},
        "interfaceType": "efa",
        "ipv4AddressCount": 3,
        "ipv4PrefixCount": 1,
        "ipv4Prefixes": ["10.0.0.64/28"],
        "ipv6AddressCount": 2,
        "ipv6Addresses": ["2001:db8::1", "2001:db8::2"],
        "ipv6PrefixCount": 1,
        "ipv6Prefixes": ["2001:db8:1::/80"],
        "networkCardIndex": 3,
        "networkInterfaceId": "eni-0123456789abcdef0",
        "primaryIpv6": "true",
        "privateIpAddress": "10.0.0.9",
        "securityGroups": [world.group, world.other_security_group],
        "subnetId": world.subnet,
    }


HEAD: Args = {"monitoring": True, "userData": "#!/bin/sh\ntrue\n"}
UNWAITED: Args = {"forceDelete": True, "waitForCapacityTimeout": "0"}
"""The handler does not wait for instances, so it supports only waitForCapacityTimeout "0"."""


def read_launch_template_name(world: w.World) -> str:
    """Return the launch template's name."""
    templates = world.ec2.describe_launch_templates(LaunchTemplateIds=[world.launch_template])["LaunchTemplates"]
    return str(templates[0]["LaunchTemplateName"])


def build_autoscaling_group_inputs(world: w.World) -> Args:
    return {
        "name": "workers",
        "minSize": 1,
        "maxSize": 3,
        "desiredCapacity": 2,
        "defaultCooldown": 60,
        "healthCheckGracePeriod": 120,
        "healthCheckType": "ELB",
        "capacityRebalance": True,
        "terminationPolicies": ["NewestInstance", "Default"],
        "vpcZoneIdentifiers": [world.subnet, world.other_subnet],
        "launchTemplate": {"id": world.launch_template, "version": "1"},
        "initialLifecycleHooks": [
            {
                "name": "join",
                "lifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                "heartbeatTimeout": 900,
                "defaultResult": "ABANDON",
                "notificationMetadata": "workers",
                "notificationTargetArn": f"arn:aws:sns:{w.REGION}:{w.ACCOUNT}:launched",
                "roleArn": world.role,
            }
        ],
        "tags": [
            {"key": "Name", "value": "worker", "propagateAtLaunch": True},
            {"key": "gpumpi:stack", "value": "test", "propagateAtLaunch": False},
        ],
        **UNWAITED,
    }


INPUTS: Mapping[str, tuple[Inputs, ...]] = {
    w.VPC: (
        lambda _: {
            "cidrBlock": "10.1.0.0/16",
            "instanceTenancy": "dedicated",
            "enableDnsSupport": False,
            "enableDnsHostnames": False,
            "enableNetworkAddressUsageMetrics": True,
            "tags": TAGS,
        },
        lambda _: {"cidrBlock": "10.1.0.0/16", "enableDnsHostnames": True},
    ),
    w.SUBNET: (
        lambda world: {
            "vpcId": world.vpc,
            "cidrBlock": "10.0.7.0/24",
            "availabilityZone": "us-west-2c",
            "mapPublicIpOnLaunch": True,
            "enableResourceNameDnsARecordOnLaunch": True,
            "tags": TAGS,
        },
        lambda world: {"vpcId": world.vpc, "cidrBlock": "10.0.7.0/24", "availabilityZoneId": "usw2-az3"},
    ),
    w.INTERNET_GATEWAY: (lambda world: {"vpcId": world.vpc, "tags": TAGS}, lambda _: {}),
    w.EIP: (
        lambda _: {"domain": "vpc", "tags": TAGS},
        lambda world: {"domain": "vpc", "networkInterface": world.interface, "associateWithPrivateIp": "10.0.0.4"},
        lambda world: {"domain": "vpc", "instance": world.instance},
    ),
    w.NAT_GATEWAY: (
        lambda world: {"subnetId": world.public_subnet, "allocationId": world.address, "tags": TAGS},
        lambda world: {"subnetId": world.subnet, "connectivityType": "private", "privateIp": "10.0.0.77"},
    ),
    w.ROUTE_TABLE: (
        lambda world: {
            "vpcId": world.vpc,
            "routes": [
                {"cidrBlock": "0.0.0.0/0", "gatewayId": world.internet_gateway},
                {"cidrBlock": "10.5.0.0/16", "natGatewayId": world.nat_gateway},
                {"cidrBlock": "10.6.0.0/16", "networkInterfaceId": world.interface},
                {"cidrBlock": "10.7.0.0/16", "transitGatewayId": world.transit_gateway},
                {"cidrBlock": "10.9.0.0/16", "vpcPeeringConnectionId": world.peering},
                {"ipv6CidrBlock": "::/0", "egressOnlyGatewayId": world.egress_only_gateway},
                {"destinationPrefixListId": world.prefix_list, "natGatewayId": world.nat_gateway},
            ],
            "tags": TAGS,
        },
    ),
    w.ROUTE: (
        lambda world: {
            "routeTableId": world.route_table,
            "destinationCidrBlock": "0.0.0.0/0",
            "gatewayId": world.internet_gateway,
        },
        lambda world: {
            "routeTableId": world.route_table,
            "destinationPrefixListId": world.prefix_list,
            "natGatewayId": world.nat_gateway,
        },
        lambda world: {
            "routeTableId": world.route_table,
            "destinationIpv6CidrBlock": "::/0",
            "egressOnlyGatewayId": world.egress_only_gateway,
        },
        lambda world: {
            "routeTableId": world.route_table,
            "destinationCidrBlock": "10.5.0.0/16",
            "networkInterfaceId": world.interface,
        },
        lambda world: {
            "routeTableId": world.route_table,
            "destinationCidrBlock": "10.5.0.0/16",
            "transitGatewayId": world.transit_gateway,
        },
        lambda world: {
            "routeTableId": world.route_table,
            "destinationCidrBlock": "10.9.0.0/16",
            "vpcPeeringConnectionId": world.peering,
        },
    ),
    w.ROUTE_TABLE_ASSOCIATION: (lambda world: {"subnetId": world.subnet, "routeTableId": world.route_table},),
    w.VPC_ENDPOINT: (
        lambda world: {
            "vpcId": world.vpc,
            "serviceName": f"com.amazonaws.{w.REGION}.s3",
            "policy": POLICY,
            "routeTableIds": [world.route_table, world.other_route_table],
            "tags": TAGS,
        },
        lambda world: {
            "vpcId": world.vpc,
            "serviceName": f"com.amazonaws.{w.REGION}.ecr.api",
            "vpcEndpointType": "Interface",
            "privateDnsEnabled": True,
            "subnetIds": [world.subnet, world.other_subnet],
            "securityGroupIds": [world.group],
        },
    ),
    w.FLOW_LOG: (
        lambda world: {
            "vpcId": world.vpc,
            "iamRoleArn": world.role,
            "logDestination": world.log_group,
            "trafficType": "ALL",
            "maxAggregationInterval": 60,
            "tags": TAGS,
        },
        lambda world: {
            "subnetId": world.subnet,
            "logDestination": world.bucket,
            "logDestinationType": "s3",
            "logFormat": "${version} ${srcaddr}",
            "trafficType": "REJECT",
        },
        lambda world: {
            "eniId": world.interface,
            "logDestination": world.bucket,
            "logDestinationType": "s3",
            "trafficType": "ALL",
        },
    ),
    w.DEFAULT_SECURITY_GROUP: (
        lambda world: {"vpcId": world.vpc, **build_security_group_inputs(world), "tags": TAGS},
        lambda world: {"vpcId": world.vpc},
    ),
    w.SECURITY_GROUP: (
        lambda world: {
            "name": "nodes",
            "description": "for nodes",
            "vpcId": world.vpc,
            "revokeRulesOnDelete": True,
            **build_security_group_inputs(world),
            "tags": TAGS,
        },
        lambda world: {"namePrefix": "nodes-", "vpcId": world.vpc},
    ),
    w.PLACEMENT_GROUP: (
        lambda _: {"name": "close", "strategy": "cluster", "tags": TAGS},
        lambda _: {"strategy": "partition", "partitionCount": 3},
        lambda _: {"strategy": "spread", "spreadLevel": "rack"},
    ),
    w.LAUNCH_TEMPLATE: (
        build_template_inputs,
        lambda _: {"namePrefix": "nodes-", "imageId": "ami-0123456789abcdef0", "updateDefaultVersion": True},
        lambda _: {},
    ),
    w.INGRESS_RULE: (
        lambda world: {
            "securityGroupId": world.group,
            "ipProtocol": "-1",
            "referencedSecurityGroupId": world.group,
            "description": "between nodes",
            "tags": TAGS,
        },
        lambda world: {
            "securityGroupId": world.group,
            "ipProtocol": "tcp",
            "fromPort": 443,
            "toPort": 444,
            "cidrIpv4": "10.1.0.0/16",
        },
        lambda world: {
            "securityGroupId": world.group,
            "ipProtocol": "17",
            "fromPort": 53,
            "toPort": 53,
            "cidrIpv6": "2001:db8::/32",
            "description": "names",
        },
        lambda world: {
            "securityGroupId": world.group,
            "ipProtocol": "tcp",
            "fromPort": 443,
            "toPort": 443,
            "prefixListId": world.prefix_list,
            "description": "storage",
        },
    ),
    w.INSTANCE: (
        lambda world: {"launchTemplate": {"id": world.launch_template, "version": "1"}, **HEAD, "tags": TAGS},
        lambda world: {
            "launchTemplate": {"name": read_launch_template_name(world)},
            "userDataBase64": USER_DATA,
            "userDataReplaceOnChange": True,
        },
        lambda world: {"launchTemplate": {"name": read_launch_template_name(world)}},
    ),
    w.AUTOSCALING_GROUP: (
        build_autoscaling_group_inputs,
        lambda world: {
            "namePrefix": "workers-",
            "minSize": 0,
            "maxSize": 0,
            "vpcZoneIdentifiers": [world.subnet],
            "launchTemplate": {"name": read_launch_template_name(world), "version": "$Latest"},
            **UNWAITED,
        },
    ),
    w.AUTOSCALING_SCHEDULE: (lambda world: {"autoscalingGroupName": world.autoscaling_group, **ACTION},),
    w.AUTOSCALING_TAG: (
        lambda world: {
            "autoscalingGroupName": world.autoscaling_group,
            "tag": {"key": "k8s.io/cluster-autoscaler/node-template/label/gpu", "value": "a100", "propagateAtLaunch": True},
        },
    ),
}
INPUTS = {**INPUTS, w.EGRESS_RULE: INPUTS[w.INGRESS_RULE]}
