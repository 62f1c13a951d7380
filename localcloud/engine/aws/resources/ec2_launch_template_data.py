"""Conversion of launch template data between Pulumi's property names and EC2's, for inputs, requests and responses.

Terraform, and therefore Pulumi, represents some booleans as strings, to distinguish "not set" from false.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.engine.aws.resource import Prop
from localcloud.engine.aws.resources.tags import from_pairs, pairs


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
            return [data_request(self.fields, element) for element in value] if self.many else data_request(self.fields, value)
        if self.item:
            return [{self.item: element} for element in value]
        if self.tags:
            return pairs(value)
        if self.truth:
            return str(value).lower() == "true"
        return int(value) if self.number else value

    def state(self, value: Any) -> Any:
        if self.fields is not None:
            return [data_state(self.fields, element) for element in value] if self.many else data_state(self.fields, value)
        if self.item:
            return [element[self.item] for element in value]
        if self.tags:
            return from_pairs(value)
        return str(value).lower() if self.truth else value


def data_request(parts: Mapping[str, Part], args: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {name: args.get(name) if args.get(name) is not None else part.always for name, part in parts.items()}
    return {parts[name].theirs: parts[name].request(value) for name, value in arguments.items() if value not in (None, "", [])}


def data_state(parts: Mapping[str, Part], data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part.state(data[part.theirs]) for name, part in parts.items() if data.get(part.theirs) not in (None, "", [])}


def text(theirs: str) -> Part:
    return Part(theirs)


def number(theirs: str, always: int | None = None) -> Part:
    return Part(theirs, number=True, always=always, empty=0)


def flag(theirs: str) -> Part:
    return Part(theirs, empty=False)


def truth(theirs: str) -> Part:
    return Part(theirs, truth=True)


def group(theirs: str, **fields: Part) -> Part:
    return Part(theirs, fields=fields, empty={})


def groups(theirs: str, **fields: Part) -> Part:
    return Part(theirs, fields=fields, many=True, empty=[])


def texts(theirs: str, item: str = "") -> Part:
    return Part(theirs, item=item, unordered=True, empty=[])


EBS = group(
    "Ebs",
    deleteOnTermination=truth("DeleteOnTermination"),
    encrypted=truth("Encrypted"),
    iops=number("Iops"),
    kmsKeyId=text("KmsKeyId"),
    snapshotId=text("SnapshotId"),
    throughput=number("Throughput"),
    volumeInitializationRate=number("VolumeInitializationRate"),
    volumeSize=number("VolumeSize"),
    volumeType=text("VolumeType"),
)
INTERFACE = groups(
    "NetworkInterfaces",
    associateCarrierIpAddress=truth("AssociateCarrierIpAddress"),
    associatePublicIpAddress=truth("AssociatePublicIpAddress"),
    connectionTrackingSpecification=group(
        "ConnectionTrackingSpecification",
        tcpEstablishedTimeout=number("TcpEstablishedTimeout"),
        udpStreamTimeout=number("UdpStreamTimeout"),
        udpTimeout=number("UdpTimeout"),
    ),
    deleteOnTermination=truth("DeleteOnTermination"),
    description=text("Description"),
    deviceIndex=number("DeviceIndex", always=0),
    enaQueueCount=number("EnaQueueCount"),
    enaSrdSpecification=group(
        "EnaSrdSpecification",
        enaSrdEnabled=flag("EnaSrdEnabled"),
        enaSrdUdpSpecification=group("EnaSrdUdpSpecification", enaSrdUdpEnabled=flag("EnaSrdUdpEnabled")),
    ),
    interfaceType=text("InterfaceType"),
    ipv4AddressCount=number("SecondaryPrivateIpAddressCount"),
    ipv4PrefixCount=number("Ipv4PrefixCount"),
    ipv4Prefixes=texts("Ipv4Prefixes", item="Ipv4Prefix"),
    ipv6AddressCount=number("Ipv6AddressCount"),
    ipv6Addresses=texts("Ipv6Addresses", item="Ipv6Address"),
    ipv6PrefixCount=number("Ipv6PrefixCount"),
    ipv6Prefixes=texts("Ipv6Prefixes", item="Ipv6Prefix"),
    networkCardIndex=number("NetworkCardIndex", always=0),
    networkInterfaceId=text("NetworkInterfaceId"),
    primaryIpv6=truth("PrimaryIpv6"),
    privateIpAddress=text("PrivateIpAddress"),
    securityGroups=texts("Groups"),
    subnetId=text("SubnetId"),
)
DATA: Mapping[str, Part] = {
    "blockDeviceMappings": groups(
        "BlockDeviceMappings",
        deviceName=text("DeviceName"),
        ebs=EBS,
        noDevice=text("NoDevice"),
        virtualName=text("VirtualName"),
    ),
    "capacityReservationSpecification": group(
        "CapacityReservationSpecification",
        capacityReservationPreference=text("CapacityReservationPreference"),
        capacityReservationTarget=group(
            "CapacityReservationTarget",
            capacityReservationId=text("CapacityReservationId"),
            capacityReservationResourceGroupArn=text("CapacityReservationResourceGroupArn"),
        ),
    ),
    "cpuOptions": group("CpuOptions", coreCount=number("CoreCount"), threadsPerCore=number("ThreadsPerCore")),
    "disableApiStop": flag("DisableApiStop"),
    "disableApiTermination": flag("DisableApiTermination"),
    "ebsOptimized": truth("EbsOptimized"),
    "enclaveOptions": group("EnclaveOptions", enabled=flag("Enabled")),
    "hibernationOptions": group("HibernationOptions", configured=flag("Configured")),
    "iamInstanceProfile": group("IamInstanceProfile", arn=text("Arn"), name=text("Name")),
    "imageId": text("ImageId"),
    "instanceInitiatedShutdownBehavior": text("InstanceInitiatedShutdownBehavior"),
    "instanceMarketOptions": group(
        "InstanceMarketOptions",
        marketType=text("MarketType"),
        spotOptions=group(
            "SpotOptions",
            blockDurationMinutes=number("BlockDurationMinutes"),
            instanceInterruptionBehavior=text("InstanceInterruptionBehavior"),
            maxPrice=text("MaxPrice"),
            spotInstanceType=text("SpotInstanceType"),
        ),
    ),
    "instanceType": text("InstanceType"),
    "keyName": text("KeyName"),
    "maintenanceOptions": group("MaintenanceOptions", autoRecovery=text("AutoRecovery")),
    "metadataOptions": group(
        "MetadataOptions",
        httpEndpoint=text("HttpEndpoint"),
        httpProtocolIpv6=text("HttpProtocolIpv6"),
        httpPutResponseHopLimit=number("HttpPutResponseHopLimit"),
        httpTokens=text("HttpTokens"),
        instanceMetadataTags=text("InstanceMetadataTags"),
    ),
    "monitoring": group("Monitoring", enabled=flag("Enabled")),
    "networkInterfaces": INTERFACE,
    "networkPerformanceOptions": group("NetworkPerformanceOptions", bandwidthWeighting=text("BandwidthWeighting")),
    "placement": group(
        "Placement",
        affinity=text("Affinity"),
        availabilityZone=text("AvailabilityZone"),
        groupId=text("GroupId"),
        groupName=text("GroupName"),
        hostId=text("HostId"),
        hostResourceGroupArn=text("HostResourceGroupArn"),
        partitionNumber=number("PartitionNumber"),
        spreadDomain=text("SpreadDomain"),
        tenancy=text("Tenancy"),
    ),
    "privateDnsNameOptions": group(
        "PrivateDnsNameOptions",
        enableResourceNameDnsARecord=flag("EnableResourceNameDnsARecord"),
        enableResourceNameDnsAaaaRecord=flag("EnableResourceNameDnsAAAARecord"),
        hostnameType=text("HostnameType"),
    ),
    "tagSpecifications": groups("TagSpecifications", resourceType=text("ResourceType"), tags=Part("Tags", tags=True, empty={})),
    "userData": text("UserData"),
    "vpcSecurityGroupIds": texts("SecurityGroupIds"),
}
