"""A stack with one pool, and functions that return the resources and properties that node pool tests check."""

import base64
import email
from typing import Any

import yaml

from infra.facts.model import CapacityReservation as ReservationFact
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world


def deploy_pool(instance_type: str = "g5.8xlarge", *, autoscaler: bool = True, platform: Any = None, **more: Any) -> Deployment:
    section = {"autoscaler": autoscaler, **(platform or {})}
    settings = world.settings(world.pool("train", instance_type, **{"maxSize": 4, **more}), platform=section)
    reservation = ReservationFact(world.RESERVATION, "default", "active", instance_type, "us-west-2b", total=4, available=4)
    return deploy(settings, world.account_facts(settings, reservations={world.RESERVATION: reservation}))


def find_launch_template(of: Deployment) -> Any:
    return of.find_resource(engine.LAUNCH_TEMPLATE, "train").inputs


def find_node_group(of: Deployment) -> engine.Resource:
    return of.find_resource(engine.NODE_GROUP, "train")


def read_group_tags(of: Deployment, name: str = "train") -> dict[str, str]:
    """Return the tags of the pool's Auto Scaling group."""
    tags = [tag.inputs for tag in of.find_resources(engine.GROUP_TAG, f"-{name}-tag-")]
    assert {tag["autoscalingGroupName"] for tag in tags} == {f"eks-gpumpi-test-{name}"}
    return {tag["tag"]["key"]: tag["tag"]["value"] for tag in tags}


def parse_user_data(of: Deployment, name: str = "train") -> list[Any]:
    """Return the MIME parts of the user data. The first one is the parsed NodeConfig."""
    text = base64.b64decode(of.find_resource(engine.LAUNCH_TEMPLATE, name).inputs["userData"]).decode()
    parts = [part.get_payload() for part in email.message_from_string(text).get_payload()]  # type: ignore[union-attr]
    return [yaml.safe_load(str(parts[0]))["spec"], *parts[1:]]
