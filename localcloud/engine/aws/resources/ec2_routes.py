"""Route tables, routes and route table associations."""

import zlib
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
    report_partial_creation,
    retry,
    to_request,
    to_state,
    wait_until_gone,
)

TIMEOUT = 5 * MINUTE

DESTINATIONS = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}
TARGETS = {
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
    "transitGatewayId": "TransitGatewayId",
    "vpcPeeringConnectionId": "VpcPeeringConnectionId",
}
INLINE = {
    "cidrBlock": "DestinationCidrBlock",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
    **TARGETS,
}
"""Property names of inline routes in a route table. The destination properties have shorter names in inline routes than
in separate route resources."""


def describe_route_table(aws: Aws, id: str) -> dict[str, Any] | None:
    ec2 = aws.client("ec2")
    return find_first(lambda: ec2.describe_route_tables(RouteTableIds=[id])["RouteTables"], "InvalidRouteTableID.NotFound")


def get_destination(route: Mapping[str, Any]) -> dict[str, str]:
    """Return the destination of a route in a request or response. The destination identifies the route in its table."""
    return {key: route[key] for key in DESTINATIONS.values() if route.get(key)}


@register
class RouteTable(Resource):
    token = "aws:ec2/routeTable:RouteTable"
    title = "EC2 Route Table"
    props = {
        "vpcId": Prop(replace=True),
        "routes": Prop(unordered=True, fields=dict.fromkeys(INLINE, Prop())),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        table = aws.client("ec2").create_route_table(
            VpcId=args["vpcId"],
            ClientToken=generate_client_token(),
            TagSpecifications=build_tag_specification("route-table", args),
        )["RouteTable"]
        id = str(table["RouteTableId"])
        with report_partial_creation(id):
            aws.wait(f"EC2 Route Table ({id}) create", lambda: describe_route_table(aws, id), timeout=TIMEOUT)
            self._set_routes(aws, id, [], args.get("routes") or [])
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        table = describe_route_table(aws, id)
        if table is None:
            return None
        return {
            "vpcId": table["VpcId"],
            "routes": [to_state(route, INLINE) for route in table.get("Routes") or [] if is_manageable(route)],
            **parse_tags(table.get("Tags")),
            "arn": build_ec2_arn(aws, f"route-table/{id}", table.get("OwnerId")),
            "ownerId": table.get("OwnerId", aws.account_id),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "routes" in changed:
            self._set_routes(aws, id, old.get("routes") or [], new.get("routes") or [])
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        table = describe_route_table(aws, id)
        if table is None:
            return
        ec2 = aws.client("ec2")
        for association in table.get("Associations") or []:
            with ignore_gone("InvalidAssociationID.NotFound"):
                ec2.disassociate_route_table(AssociationId=association["RouteTableAssociationId"])
        with ignore_gone("InvalidRouteTableID.NotFound"):
            delete = partial(ec2.delete_route_table, RouteTableId=id)
            retry(aws, f"EC2 Route Table ({id}) delete", delete, "DependencyViolation", timeout=TIMEOUT)

    @staticmethod
    def _set_routes(aws: Aws, id: str, old: list[Args], new: list[Args]) -> None:
        ec2 = aws.client("ec2")
        before = {format_destination(route): route for route in (to_request(route, INLINE) for route in old)}
        after = {format_destination(route): route for route in (to_request(route, INLINE) for route in new)}
        for key, route in before.items():
            if key not in after:
                with ignore_gone("InvalidRoute.NotFound"):
                    ec2.delete_route(RouteTableId=id, **get_destination(route))
        for key, route in after.items():
            if key not in before:
                ec2.create_route(RouteTableId=id, **route)
            elif route != before[key]:
                ec2.replace_route(RouteTableId=id, **route)


def format_destination(route: Mapping[str, Any]) -> str:
    return "".join(get_destination(route).values())


def is_manageable(route: Mapping[str, Any]) -> bool:
    """Return whether a Pulumi program can manage the route. Programs cannot manage the local route, propagated
    routes or routes to gateway endpoints."""
    gateway = str(route.get("GatewayId") or "")
    by_endpoint = gateway.startswith("vpce-") and bool(route.get("DestinationPrefixListId"))
    return gateway != "local" and route.get("Origin") != "EnableVgwRoutePropagation" and not by_endpoint


@register
class Route(Resource):
    token = "aws:ec2/route:Route"
    title = "EC2 Route"
    OUTPUTS = {
        **DESTINATIONS,
        **TARGETS,
        "instanceId": "InstanceId",
        "instanceOwnerId": "InstanceOwnerId",
        "origin": "Origin",
        "state": "State",
    }
    props = {
        "routeTableId": Prop(replace=True),
        **dict.fromkeys(DESTINATIONS, Prop(replace=True, default="")),
        **dict.fromkeys(TARGETS, Prop(default="")),
        "networkInterfaceId": Prop(),  # AWS also sets this property for routes with other targets
    }

    def create(self, aws: Aws, args: Args) -> str:
        table, request = str(args["routeTableId"]), to_request(args, {**DESTINATIONS, **TARGETS})
        aws.client("ec2").create_route(RouteTableId=table, **request)
        id = f"r-{table}{zlib.crc32(format_destination(request).encode())}"
        with report_partial_creation(id):
            self._wait_for_route(aws, id, args)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        route = self._find(aws, recorded)
        return None if route is None else {"routeTableId": recorded["routeTableId"], **to_state(route, self.OUTPUTS)}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        aws.client("ec2").replace_route(RouteTableId=new["routeTableId"], **to_request(new, {**DESTINATIONS, **TARGETS}))
        self._wait_for_route(aws, id, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone("InvalidRoute.NotFound", "InvalidRouteTableID.NotFound"):
            aws.client("ec2").delete_route(RouteTableId=state["routeTableId"], **to_request(state, DESTINATIONS))
        wait_until_gone(aws, f"EC2 Route ({id})", partial(self._find, aws, state), timeout=TIMEOUT)

    def _wait_for_route(self, aws: Aws, id: str, args: Args) -> None:
        aws.wait(f"EC2 Route ({id})", lambda: self._find(aws, args), timeout=TIMEOUT)

    @staticmethod
    def _find(aws: Aws, route_args: Mapping[str, Any]) -> dict[str, Any] | None:
        if not route_args.get("routeTableId"):
            raise Failed("a route is identified by its table and destination, so it cannot be imported by id")
        table = describe_route_table(aws, route_args["routeTableId"]) or {}
        destination = to_request(route_args, DESTINATIONS)
        return next((route for route in table.get("Routes") or [] if get_destination(route) == destination), None)


@register
class RouteTableAssociation(Resource):
    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    title = "EC2 Route Table Association"
    props = {"subnetId": Prop(replace=True), "routeTableId": Prop()}

    def create(self, aws: Aws, args: Args) -> str:
        ec2 = aws.client("ec2")
        associate = partial(ec2.associate_route_table, SubnetId=args["subnetId"], RouteTableId=args["routeTableId"])
        answer = retry(aws, "EC2 Route Table Association", associate, "InvalidRouteTableID.NotFound", timeout=TIMEOUT)
        id = str(answer["AssociationId"])
        with report_partial_creation(id):
            aws.wait(f"EC2 Route Table Association ({id}) create", partial(self._find, aws, id, args), timeout=TIMEOUT)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        association = self._find(aws, id, recorded)
        return association and to_state(association, {"subnetId": "SubnetId", "routeTableId": "RouteTableId"})

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        association = self._find(aws, id, old)
        if association is None:
            raise Failed(f"updating EC2 Route Table Association ({id}): not found")
        aws.client("ec2").replace_route_table_association(
            AssociationId=association["RouteTableAssociationId"], RouteTableId=new["routeTableId"]
        )

    def delete(self, aws: Aws, id: str, state: State) -> None:
        association = self._find(aws, id, state)
        if association is not None:
            with ignore_gone("InvalidAssociationID.NotFound"):
                aws.client("ec2").disassociate_route_table(AssociationId=association["RouteTableAssociationId"])

    def _find(self, aws: Aws, id: str, recorded: Mapping[str, Any]) -> dict[str, Any] | None:
        """Find the association by id or subnet, because a replacement of the route table changes the id."""
        filters = [{"Name": "association.route-table-association-id", "Values": [id]}]
        if recorded.get("subnetId"):
            filters.append({"Name": "association.subnet-id", "Values": [recorded["subnetId"]]})
        for table_filter in filters:
            for table in aws.client("ec2").describe_route_tables(Filters=[table_filter])["RouteTables"]:
                for association in table.get("Associations") or []:
                    if association["RouteTableAssociationId"] == id or association.get("SubnetId") == recorded.get("subnetId"):
                        return dict(association)
        return None
