"""Conversion of launch template data between Pulumi's property names and EC2's, for inputs, requests and responses.

Terraform, and therefore Pulumi, represents some booleans as strings, to distinguish "not set" from false.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.engine.aws.resource import Prop
from localcloud.engine.aws.resources.tags import from_pairs, to_pairs


@dataclass(frozen=True)
class Part:
    """A property of launch template data."""

    theirs: str
    """Name of the property in EC2's API."""
    item: str = ""
    """If set, a plain list in Pulumi is a list of objects in EC2, each with only this member."""
    fields: Mapping[str, "Part"] | None = None
    many: bool = False
    """The value is a list of objects with these `fields`."""
    unordered: bool = False
    truth: bool = False
    """Boolean that Pulumi represents as `"true"` or `"false"`."""
    tags: bool = False
    number: bool = False
    always: Any = None
    """Default value to send to EC2 if the property is not set."""
    empty: Any = ""
    """Value that stands for "not set"."""

    @property
    def prop(self) -> Prop:
        fields = None if self.fields is None else {name: part.prop for name, part in self.fields.items()}
        return Prop(unordered=self.unordered, fields=fields, default=self.empty if self.always is None else self.always)

    def request(self, value: Any) -> Any:
        if self.fields is not None:
            return (
                [build_data_request(self.fields, element) for element in value]
                if self.many
                else build_data_request(self.fields, value)
            )
        if self.item:
            return [{self.item: element} for element in value]
        if self.tags:
            return to_pairs(value)
        if self.truth:
            return str(value).lower() == "true"
        return int(value) if self.number else value

    def state(self, value: Any) -> Any:
        if self.fields is not None:
            return (
                [build_data_state(self.fields, element) for element in value]
                if self.many
                else build_data_state(self.fields, value)
            )
        if self.item:
            return [element[self.item] for element in value]
        if self.tags:
            return from_pairs(value)
        return str(value).lower() if self.truth else value


def build_data_request(parts: Mapping[str, Part], args: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {name: args.get(name) if args.get(name) is not None else part.always for name, part in parts.items()}
    return {parts[name].theirs: parts[name].request(value) for name, value in arguments.items() if value not in (None, "", [])}


def build_data_state(parts: Mapping[str, Part], data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part.state(data[part.theirs]) for name, part in parts.items() if data.get(part.theirs) not in (None, "", [])}


def map_text(theirs: str) -> Part:
    return Part(theirs)


def map_number(theirs: str, always: int | None = None) -> Part:
    return Part(theirs, number=True, always=always, empty=0)


def map_boolean(theirs: str) -> Part:
    return Part(theirs, empty=False)


def map_boolean_text(theirs: str) -> Part:
    return Part(theirs, truth=True)


def map_object(theirs: str, **fields: Part) -> Part:
    return Part(theirs, fields=fields, empty={})


def map_object_list(theirs: str, **fields: Part) -> Part:
    return Part(theirs, fields=fields, many=True, empty=[])


def map_text_list(theirs: str, item: str = "") -> Part:
    return Part(theirs, item=item, unordered=True, empty=[])


EBS = map_object(
    "Ebs",
    deleteOnTermination=map_boolean_text("DeleteOnTermination"),
    encrypted=map_boolean_text("Encrypted"),
    iops=map_number("Iops"),
    kmsKeyId=map_text("KmsKeyId"),
    snapshotId=map_text("SnapshotId"),
    throughput=map_number("Throughput"),
    volumeInitializationRate=map_number("VolumeInitializationRate"),
    volumeSize=map_number("VolumeSize"),
    volumeType=map_text("VolumeType"),
)
INTERFACE = map_object_list(
    "NetworkInterfaces",
    associateCarrierIpAddress=map_boolean_text("AssociateCarrierIpAddress"),
    associatePublicIpAddress=map_boolean_text("AssociatePublicIpAddress"),
    connectionTrackingSpecification=map_object(
        "ConnectionTrackingSpecification",
        tcpEstablishedTimeout=map_number("TcpEstablishedTimeout"),
        udpStreamTimeout=map_number("UdpStreamTimeout"),
        udpTimeout=map_number("UdpTimeout"),
    ),
    deleteOnTermination=map_boolean_text("DeleteOnTermination"),
    description=map_text("Description"),
    deviceIndex=map_number("DeviceIndex", always=0),
    enaQueueCount=map_number("EnaQueueCount"),
    enaSrdSpecification=map_object(
        "EnaSrdSpecification",
        enaSrdEnabled=map_boolean("EnaSrdEnabled"),
        enaSrdUdpSpecification=map_object("EnaSrdUdpSpecification", enaSrdUdpEnabled=map_boolean("EnaSrdUdpEnabled")),
    ),
    interfaceType=map_text("InterfaceType"),
    ipv4AddressCount=map_number("SecondaryPrivateIpAddressCount"),
    ipv4PrefixCount=map_number("Ipv4PrefixCount"),
    ipv4Prefixes=map_text_list("Ipv4Prefixes", item="Ipv4Prefix"),
    ipv6AddressCount=map_number("Ipv6AddressCount"),
    ipv6Addresses=map_text_list("Ipv6Addresses", item="Ipv6Address"),
    ipv6PrefixCount=map_number("Ipv6PrefixCount"),
    ipv6Prefixes=map_text_list("Ipv6Prefixes", item="Ipv6Prefix"),
    networkCardIndex=map_number("NetworkCardIndex", always=0),
    networkInterfaceId=map_text("NetworkInterfaceId"),
    primaryIpv6=map_boolean_text("PrimaryIpv6"),
    privateIpAddress=map_text("PrivateIpAddress"),
    securityGroups=map_text_list("Groups"),
    subnetId=map_text("SubnetId"),
)
DATA: Mapping[str, Part] = {
    "blockDeviceMappings": map_object_list(
        "BlockDeviceMappings",
        deviceName=map_text("DeviceName"),
        ebs=EBS,
        noDevice=map_text("NoDevice"),
        virtualName=map_text("VirtualName"),
    ),
    "capacityReservationSpecification": map_object(
        "CapacityReservationSpecification",
        capacityReservationPreference=map_text("CapacityReservationPreference"),
        capacityReservationTarget=map_object(
            "CapacityReservationTarget",
            capacityReservationId=map_text("CapacityReservationId"),
            capacityReservationResourceGroupArn=map_text("CapacityReservationResourceGroupArn"),
        ),
    ),
    "cpuOptions": map_object("CpuOptions", coreCount=map_number("CoreCount"), threadsPerCore=map_number("ThreadsPerCore")),
    "disableApiStop": map_boolean("DisableApiStop"),
    "disableApiTermination": map_boolean("DisableApiTermination"),
    "ebsOptimized": map_boolean_text("EbsOptimized"),
    "enclaveOptions": map_object("EnclaveOptions", enabled=map_boolean("Enabled")),
    "hibernationOptions": map_object("HibernationOptions", configured=map_boolean("Configured")),
    "iamInstanceProfile": map_object("IamInstanceProfile", arn=map_text("Arn"), name=map_text("Name")),
    "imageId": map_text("ImageId"),
    "instanceInitiatedShutdownBehavior": map_text("InstanceInitiatedShutdownBehavior"),
    "instanceMarketOptions": map_object(
        "InstanceMarketOptions",
        marketType=map_text("MarketType"),
        spotOptions=map_object(
            "SpotOptions",
            blockDurationMinutes=map_number("BlockDurationMinutes"),
            instanceInterruptionBehavior=map_text("InstanceInterruptionBehavior"),
            maxPrice=map_text("MaxPrice"),
            spotInstanceType=map_text("SpotInstanceType"),
        ),
    ),
    "instanceType": map_text("InstanceType"),
    "keyName": map_text("KeyName"),
    "maintenanceOptions": map_object("MaintenanceOptions", autoRecovery=map_text("AutoRecovery")),
    "metadataOptions": map_object(
        "MetadataOptions",
        httpEndpoint=map_text("HttpEndpoint"),
        httpProtocolIpv6=map_text("HttpProtocolIpv6"),
        httpPutResponseHopLimit=map_number("HttpPutResponseHopLimit"),
        httpTokens=map_text("HttpTokens"),
        instanceMetadataTags=map_text("InstanceMetadataTags"),
    ),
    "monitoring": map_object("Monitoring", enabled=map_boolean("Enabled")),
    "networkInterfaces": INTERFACE,
    "networkPerformanceOptions": map_object("NetworkPerformanceOptions", bandwidthWeighting=map_text("BandwidthWeighting")),
    "placement": map_object(
        "Placement",
        affinity=map_text("Affinity"),
        availabilityZone=map_text("AvailabilityZone"),
        groupId=map_text("GroupId"),
        groupName=map_text("GroupName"),
        hostId=map_text("HostId"),
        hostResourceGroupArn=map_text("HostResourceGroupArn"),
        partitionNumber=map_number("PartitionNumber"),
        spreadDomain=map_text("SpreadDomain"),
        tenancy=map_text("Tenancy"),
    ),
    "privateDnsNameOptions": map_object(
        "PrivateDnsNameOptions",
        enableResourceNameDnsARecord=map_boolean("EnableResourceNameDnsARecord"),
        enableResourceNameDnsAaaaRecord=map_boolean("EnableResourceNameDnsAAAARecord"),
        hostnameType=map_text("HostnameType"),
    ),
    "tagSpecifications": map_object_list(
        "TagSpecifications", resourceType=map_text("ResourceType"), tags=Part("Tags", tags=True, empty={})
    ),
    "userData": map_text("UserData"),
    "vpcSecurityGroupIds": map_text_list("SecurityGroupIds"),
}
