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


def text_part(theirs: str) -> Part:
    return Part(theirs)


def number_part(theirs: str, always: int | None = None) -> Part:
    return Part(theirs, number=True, always=always, empty=0)


def boolean_part(theirs: str) -> Part:
    return Part(theirs, empty=False)


def boolean_text_part(theirs: str) -> Part:
    return Part(theirs, truth=True)


def object_part(theirs: str, **fields: Part) -> Part:
    return Part(theirs, fields=fields, empty={})


def object_list_part(theirs: str, **fields: Part) -> Part:
    return Part(theirs, fields=fields, many=True, empty=[])


def text_list_part(theirs: str, item: str = "") -> Part:
    return Part(theirs, item=item, unordered=True, empty=[])


EBS = object_part(
    "Ebs",
    deleteOnTermination=boolean_text_part("DeleteOnTermination"),
    encrypted=boolean_text_part("Encrypted"),
    iops=number_part("Iops"),
    kmsKeyId=text_part("KmsKeyId"),
    snapshotId=text_part("SnapshotId"),
    throughput=number_part("Throughput"),
    volumeInitializationRate=number_part("VolumeInitializationRate"),
    volumeSize=number_part("VolumeSize"),
    volumeType=text_part("VolumeType"),
)
INTERFACE = object_list_part(
    "NetworkInterfaces",
    associateCarrierIpAddress=boolean_text_part("AssociateCarrierIpAddress"),
    associatePublicIpAddress=boolean_text_part("AssociatePublicIpAddress"),
    connectionTrackingSpecification=object_part(
        "ConnectionTrackingSpecification",
        tcpEstablishedTimeout=number_part("TcpEstablishedTimeout"),
        udpStreamTimeout=number_part("UdpStreamTimeout"),
        udpTimeout=number_part("UdpTimeout"),
    ),
    deleteOnTermination=boolean_text_part("DeleteOnTermination"),
    description=text_part("Description"),
    deviceIndex=number_part("DeviceIndex", always=0),
    enaQueueCount=number_part("EnaQueueCount"),
    enaSrdSpecification=object_part(
        "EnaSrdSpecification",
        enaSrdEnabled=boolean_part("EnaSrdEnabled"),
        enaSrdUdpSpecification=object_part("EnaSrdUdpSpecification", enaSrdUdpEnabled=boolean_part("EnaSrdUdpEnabled")),
    ),
    interfaceType=text_part("InterfaceType"),
    ipv4AddressCount=number_part("SecondaryPrivateIpAddressCount"),
    ipv4PrefixCount=number_part("Ipv4PrefixCount"),
    ipv4Prefixes=text_list_part("Ipv4Prefixes", item="Ipv4Prefix"),
    ipv6AddressCount=number_part("Ipv6AddressCount"),
    ipv6Addresses=text_list_part("Ipv6Addresses", item="Ipv6Address"),
    ipv6PrefixCount=number_part("Ipv6PrefixCount"),
    ipv6Prefixes=text_list_part("Ipv6Prefixes", item="Ipv6Prefix"),
    networkCardIndex=number_part("NetworkCardIndex", always=0),
    networkInterfaceId=text_part("NetworkInterfaceId"),
    primaryIpv6=boolean_text_part("PrimaryIpv6"),
    privateIpAddress=text_part("PrivateIpAddress"),
    securityGroups=text_list_part("Groups"),
    subnetId=text_part("SubnetId"),
)
DATA: Mapping[str, Part] = {
    "blockDeviceMappings": object_list_part(
        "BlockDeviceMappings",
        deviceName=text_part("DeviceName"),
        ebs=EBS,
        noDevice=text_part("NoDevice"),
        virtualName=text_part("VirtualName"),
    ),
    "capacityReservationSpecification": object_part(
        "CapacityReservationSpecification",
        capacityReservationPreference=text_part("CapacityReservationPreference"),
        capacityReservationTarget=object_part(
            "CapacityReservationTarget",
            capacityReservationId=text_part("CapacityReservationId"),
            capacityReservationResourceGroupArn=text_part("CapacityReservationResourceGroupArn"),
        ),
    ),
    "cpuOptions": object_part("CpuOptions", coreCount=number_part("CoreCount"), threadsPerCore=number_part("ThreadsPerCore")),
    "disableApiStop": boolean_part("DisableApiStop"),
    "disableApiTermination": boolean_part("DisableApiTermination"),
    "ebsOptimized": boolean_text_part("EbsOptimized"),
    "enclaveOptions": object_part("EnclaveOptions", enabled=boolean_part("Enabled")),
    "hibernationOptions": object_part("HibernationOptions", configured=boolean_part("Configured")),
    "iamInstanceProfile": object_part("IamInstanceProfile", arn=text_part("Arn"), name=text_part("Name")),
    "imageId": text_part("ImageId"),
    "instanceInitiatedShutdownBehavior": text_part("InstanceInitiatedShutdownBehavior"),
    "instanceMarketOptions": object_part(
        "InstanceMarketOptions",
        marketType=text_part("MarketType"),
        spotOptions=object_part(
            "SpotOptions",
            blockDurationMinutes=number_part("BlockDurationMinutes"),
            instanceInterruptionBehavior=text_part("InstanceInterruptionBehavior"),
            maxPrice=text_part("MaxPrice"),
            spotInstanceType=text_part("SpotInstanceType"),
        ),
    ),
    "instanceType": text_part("InstanceType"),
    "keyName": text_part("KeyName"),
    "maintenanceOptions": object_part("MaintenanceOptions", autoRecovery=text_part("AutoRecovery")),
    "metadataOptions": object_part(
        "MetadataOptions",
        httpEndpoint=text_part("HttpEndpoint"),
        httpProtocolIpv6=text_part("HttpProtocolIpv6"),
        httpPutResponseHopLimit=number_part("HttpPutResponseHopLimit"),
        httpTokens=text_part("HttpTokens"),
        instanceMetadataTags=text_part("InstanceMetadataTags"),
    ),
    "monitoring": object_part("Monitoring", enabled=boolean_part("Enabled")),
    "networkInterfaces": INTERFACE,
    "networkPerformanceOptions": object_part("NetworkPerformanceOptions", bandwidthWeighting=text_part("BandwidthWeighting")),
    "placement": object_part(
        "Placement",
        affinity=text_part("Affinity"),
        availabilityZone=text_part("AvailabilityZone"),
        groupId=text_part("GroupId"),
        groupName=text_part("GroupName"),
        hostId=text_part("HostId"),
        hostResourceGroupArn=text_part("HostResourceGroupArn"),
        partitionNumber=number_part("PartitionNumber"),
        spreadDomain=text_part("SpreadDomain"),
        tenancy=text_part("Tenancy"),
    ),
    "privateDnsNameOptions": object_part(
        "PrivateDnsNameOptions",
        enableResourceNameDnsARecord=boolean_part("EnableResourceNameDnsARecord"),
        enableResourceNameDnsAaaaRecord=boolean_part("EnableResourceNameDnsAAAARecord"),
        hostnameType=text_part("HostnameType"),
    ),
    "tagSpecifications": object_list_part(
        "TagSpecifications", resourceType=text_part("ResourceType"), tags=Part("Tags", tags=True, empty={})
    ),
    "userData": text_part("UserData"),
    "vpcSecurityGroupIds": text_list_part("SecurityGroupIds"),
}
