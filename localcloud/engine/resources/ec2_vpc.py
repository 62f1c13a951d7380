"""VPCs."""

from localcloud.engine.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.resources.ec2_tags import TAGS, read_tags, tag_specification, update_tags

ATTRIBUTES = {"enableDnsHostnames": "EnableDnsHostnames", "enableDnsSupport": "EnableDnsSupport"}


@register
class Vpc(Resource):
    token = "aws:ec2/vpc:Vpc"
    title = "EC2 VPC"
    props = {
        "cidrBlock": Prop(replace=True),
        "instanceTenancy": Prop(default="default"),
        "enableDnsHostnames": Prop(default=False),
        "enableDnsSupport": Prop(default=True),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        ec2 = aws.client("ec2")
        vpc = ec2.create_vpc(
            CidrBlock=args["cidrBlock"],
            InstanceTenancy=args.get("instanceTenancy", "default"),
            TagSpecifications=tag_specification("vpc", args),
        )["Vpc"]
        for name, attribute in ATTRIBUTES.items():
            if name in args:
                ec2.modify_vpc_attribute(VpcId=vpc["VpcId"], **{attribute: {"Value": args[name]}})
        return str(vpc["VpcId"])

    def read(self, aws: Aws, id: str, known: State) -> State | None:
        raise NotImplementedError

    def delete(self, aws: Aws, id: str, state: State) -> None:
        raise NotImplementedError
