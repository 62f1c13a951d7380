"""`local break`: break a part of a local cluster, to see how jobs and the platform react."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final

import typer

from cli import options
from cli.console import print_result
from cli.errors import CommandError, NotFound
from cli.exit_codes import REFUSED, USAGE
from cli.installation import program_name as program
from cli.local.account import send_request
from cli.local.crashed_parts import DEFAULT_HOME, make_home_option
from cli.local.local_commands import Home
from infra.health import xids
from infra.plan.specs import DRAIN_BEFORE_END
from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import finding, gpus
from localcloud.kubernetes.nodes.finding import RunningNode

DOUBLE_BIT: Final = 48
UNTIL_NOT_READY: Final = "Kubernetes reports it as NotReady after about 50 s."


@dataclass(frozen=True)
class Broken:
    """Result of injecting a fault, or of --restore."""

    did: str
    restore: str
    facts: dict[str, Any]


Act = Callable[[LocalCloud, RunningNode], Broken]


@dataclass(frozen=True)
class Fault:
    """The fault to inject."""

    xid: Annotated[
        int | None, typer.Option(help="A GPU reports this Xid, such as 79: the GPU has fallen off the bus.", min=1)
    ] = None
    ecc: Annotated[bool, typer.Option("--ecc", help="A GPU has a double-bit memory error (Xid 48).")] = False
    gpu: Annotated[int, typer.Option(help="Index of the GPU.", min=0)] = 0
    kubelet: Annotated[bool, typer.Option("--kubelet", help="Stop the node's kubelet.")] = False
    link: Annotated[bool, typer.Option("--link", help="Unplug the node's network link.")] = False
    instance: Annotated[bool, typer.Option("--instance", help="Terminate the node's instance.")] = False
    spot_notice: Annotated[bool, typer.Option("--spot-notice", help="EC2 interrupts the Spot Instance in two minutes.")] = False
    rebalance: Annotated[
        bool, typer.Option("--rebalance", help="EC2 recommends replacing the Spot Instance, without an interruption notice.")
    ] = False
    retire: Annotated[bool, typer.Option("--retire", help="EC2 retires the instance in two weeks.")] = False
    block_ends: Annotated[
        bool, typer.Option("--block-ends", help="Advance the calendar until the node's Capacity Block drains.")
    ] = False
    hang: Annotated[int | None, typer.Option(help="Stop this rank of a job, as if it were waiting forever.", min=0)] = None
    slow: Annotated[int | None, typer.Option(help="Let this rank of a job run only a fifth of the time.", min=0)] = None
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Restart the kubelet and reconnect the network link, or let the ranks of a job continue."),
    ] = False


def command(
    target: Annotated[str, typer.Argument(help="Name of a node, ID of its instance, or name of a job.")],
    *,
    fault: Fault,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """Needs exactly one fault, or --restore. After an Xid, NVIDIA's device plugin withdraws the GPU from Kubernetes, and the
    node's condition AcceleratedHardwareReady becomes False. Application errors such as Xid 31 only leave an event.
    """
    if fault.ecc and fault.xid is not None:
        raise CommandError("give one fault, not --xid and --ecc", USAGE)
    cloud = LocalCloud(home)
    number = DOUBLE_BIT if fault.ecc else fault.xid
    chosen = [act for option, act in ON_NODES.items() if getattr(fault, option)]
    if number is not None:
        chosen.append(lambda cloud, node: break_gpu(cloud, node, fault.gpu, number))
    ranks = [(verb, rank) for verb, rank in (("hang", fault.hang), ("slow", fault.slow)) if rank is not None]
    if len(chosen) + len(ranks) != 1:
        names = (f"--{option.replace('_', '-')}" for option in ("xid", *ON_NODES, "hang", "slow"))
        raise CommandError(f"give exactly one of {', '.join(names)}", USAGE)
    broken = suspend_rank(cloud, target, *ranks[0]) if ranks else break_node(cloud, target, chosen[0], restore=fault.restore)
    restore = broken.restore.replace("NODE", target)
    document = {**broken.facts, "did": broken.did, "restore": restore}
    return print_result(document, f"{broken.did} {restore}".strip(), as_json=as_json, stderr=True)


def break_node(cloud: LocalCloud, target: str, act: Act, *, restore: bool) -> Broken:
    try:
        return act(cloud, finding.find_real_node(cloud.kubernetes_folder, target))
    except finding.NoSuchNode as error:
        if restore and (done := restore_job(cloud, target)):
            return done
        raise NotFound(str(error)) from None


def suspend_rank(cloud: LocalCloud, job: str, do: str, rank: int) -> Broken:
    send_request(cloud.control(), "POST", f"kubernetes/jobs/{job}/ranks", {"do": do, "rank": rank})
    did = f"Rank {rank} of {job} has stopped." if do == "hang" else f"Rank {rank} of {job} runs only a fifth of the time."
    return Broken(did, suggest_restore(cloud), {"job": job, "rank": rank})


def restore_job(cloud: LocalCloud, job: str) -> Broken | None:
    """Resume the ranks of a job. Return None if the local cloud runs no ranks of this job."""
    if not cloud.is_running():
        return None
    ranks = send_request(cloud.control(), "POST", f"kubernetes/jobs/{job}/ranks", {"do": "restore"})["ranks"]
    return Broken(f"All ranks of {job} continue.", "", {"job": job}) if ranks else None


def break_gpu(cloud: LocalCloud, node: RunningNode, index: int, xid: int) -> Broken:
    try:
        uuid = gpus.break_gpu(node, index, xid)
    except gpus.NoSuchGpu as error:
        raise NotFound(str(error)) from None
    did = f"GPU {index} of {node.name} ({uuid}) has reported Xid {xid}: {xids.look_up_xid(xid).text}."
    again = f"Replace the instance to get new GPUs: {program()} local break NODE --instance{make_home_option(cloud)}"
    restore = again if xids.look_up_xid(xid).sets_condition else ""
    return Broken(did, restore, {"node": node.name, "gpu": index, "uuid": uuid, "xid": xid})


def switch_off_part(part: str, did: str, cloud: LocalCloud, node: RunningNode) -> Broken:
    switch_part(cloud, node, part, on=False)
    return Broken(f"{did.format(node.name)} {UNTIL_NOT_READY}", suggest_restore(cloud), {"node": node.name})


def restore_node(cloud: LocalCloud, node: RunningNode) -> Broken:
    for part in ("link", "kubelet"):
        switch_part(cloud, node, part, on=True)
    return Broken(f"The kubelet of {node.name} is running and its link is up.", "", {"node": node.name})


def terminate_instance(cloud: LocalCloud, node: RunningNode) -> Broken:
    region = next(cluster.region for cluster in cloud.clusters() if cluster.name == node.cluster)
    cloud.clients(region)("ec2").terminate_instances(InstanceIds=[node.instance])
    did = f"Instance {node.instance} of {node.name} is terminated."
    return Broken(did, "Auto Scaling replaces it.", {"node": node.name, "instance": node.instance})


def send_spot_notice(cloud: LocalCloud, node: RunningNode) -> Broken:
    end = schedule_event(cloud, node, "interruption")
    did = f"EC2 interrupts {node.instance} of {node.name} at {end}, the time in its Spot notice. EKS drains the node now."
    return Broken(did, "Auto Scaling replaces it.", {"node": node.name, "instance": node.instance, "time": end})


def recommend_rebalance(cloud: LocalCloud, node: RunningNode) -> Broken:
    time = schedule_event(cloud, node, "rebalance")
    did = f"EC2 recommends to replace {node.instance} of {node.name}. EKS drains the node once a replacement is Ready."
    return Broken(did, "", {"node": node.name, "instance": node.instance, "time": time})


def schedule_retirement(cloud: LocalCloud, node: RunningNode) -> Broken:
    end = schedule_event(cloud, node, "retirement")
    did = f"EC2 retires {node.instance} of {node.name} at {end}."
    hint = f"See: {program()} health {node.name} -s STACK"
    return Broken(did, hint, {"node": node.name, "instance": node.instance, "time": end})


def end_capacity_block(cloud: LocalCloud, node: RunningNode) -> Broken:
    """Advance the calendar to the time at which the pool's scheduled action drains the node.

    EC2 terminates the instances of the Capacity Block 15 minutes after this time.
    """
    region = next(cluster.region for cluster in cloud.clusters() if cluster.name == node.cluster)
    ec2 = cloud.clients(region)("ec2")
    (instance,) = [
        instance for each in ec2.describe_instances(InstanceIds=[node.instance])["Reservations"] for instance in each["Instances"]
    ]
    block = instance.get("CapacityReservationId")
    reserved = ec2.describe_capacity_reservations(CapacityReservationIds=[block])["CapacityReservations"] if block else []
    end = next(
        (reservation["EndDate"] for reservation in reserved if reservation.get("ReservationType") == "capacity-block"), None
    )
    if end is None:
        raise CommandError(
            f"{node.name} is not in a Capacity Block. Use a node of a pool whose market is capacity-block", REFUSED
        )
    control = cloud.control()
    wait = end - DRAIN_BEFORE_END - datetime.fromisoformat(send_request(control, "GET", "clock")["now"])
    send_request(control, "POST", "clock", {"seconds": max(wait, timedelta()).total_seconds()})
    did = f"It is {DRAIN_BEFORE_END.total_seconds() / 60:.0f} minutes before the end of {block}: Auto Scaling drains its nodes."
    return Broken(did, "", {"node": node.name, "reservation": block, "end": end.isoformat()})


def schedule_event(cloud: LocalCloud, node: RunningNode, notice: str) -> str:
    return str(send_request(cloud.control(), "POST", f"instances/{node.instance}/{notice}", {})["time"])


def suggest_restore(cloud: LocalCloud) -> str:
    return f"Restore it with: {program()} local break NODE --restore{make_home_option(cloud)}"


def switch_part(cloud: LocalCloud, node: RunningNode, part: str, *, on: bool) -> None:
    send_request(cloud.control(), "POST", f"kubernetes/nodes/{node.name}/{part}", {"on": on})


ON_NODES: Final[Mapping[str, Act]] = {
    "kubelet": partial(switch_off_part, "kubelet", "The kubelet of {} has stopped."),
    "link": partial(switch_off_part, "link", "The network link of {} is down."),
    "instance": terminate_instance,
    "spot_notice": send_spot_notice,
    "rebalance": recommend_rebalance,
    "retire": schedule_retirement,
    "block_ends": end_capacity_block,
    "restore": restore_node,
}
"""Maps a field of `Fault` to the function that injects the fault into a node."""
