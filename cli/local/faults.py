"""`local break`: break a part of a local cluster, to see how jobs and the platform react."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import typer

from cli import options
from cli.console import print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK, REFUSED, USAGE
from cli.installation import command as program
from cli.local.account import asked
from cli.local.crashed_parts import DEFAULT_HOME, home_option
from cli.local.local_commands import Home, report
from infra.health import xids
from infra.plan.specs import DRAIN_BEFORE_END
from localcloud.control import ControlError
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


def command(
    target: Annotated[str, typer.Argument(help="Name of a node, ID of its instance, or name of a job.")],
    xid: Annotated[
        int | None, typer.Option(help="A GPU reports this Xid, such as 79: the GPU has fallen off the bus.", min=1)
    ] = None,
    ecc: Annotated[bool, typer.Option("--ecc", help="A GPU has a double-bit memory error (Xid 48).")] = False,
    gpu: Annotated[int, typer.Option(help="Index of the GPU.", min=0)] = 0,
    kubelet: Annotated[bool, typer.Option("--kubelet", help="Stop the node's kubelet.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Unplug the node's network link.")] = False,
    instance: Annotated[bool, typer.Option("--instance", help="Terminate the node's instance.")] = False,
    spot_notice: Annotated[bool, typer.Option("--spot-notice", help="EC2 interrupts the Spot Instance in two minutes.")] = False,
    rebalance: Annotated[
        bool, typer.Option("--rebalance", help="EC2 recommends to replace the Spot Instance, without a notice.")
    ] = False,
    retire: Annotated[bool, typer.Option("--retire", help="EC2 retires the instance in two weeks.")] = False,
    block_ends: Annotated[
        bool, typer.Option("--block-ends", help="Advance the calendar until the node's Capacity Block drains.")
    ] = False,
    hang: Annotated[int | None, typer.Option(help="Stop this rank of a job, as if it waited forever.", min=0)] = None,
    slow: Annotated[int | None, typer.Option(help="Let this rank of a job run only a fifth of the time.", min=0)] = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Start the kubelet and plug in the link, or let the ranks of a job continue.")
    ] = False,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """Needs exactly one fault, or --restore. After an Xid, NVIDIA's device plugin withdraws the GPU from Kubernetes, and the
    node's condition AcceleratedHardwareReady becomes False. Application errors such as Xid 31 only leave an event.
    """
    if ecc and xid is not None:
        raise CommandError("give one fault, not --xid and --ecc", USAGE)
    number = DOUBLE_BIT if ecc else xid
    cloud = LocalCloud(home)
    faults: dict[str, tuple[bool, Callable[[RunningNode], Broken]]] = {
        "--xid": (number is not None, lambda found: _gpu(cloud, found, gpu, number or 0)),
        "--kubelet": (kubelet, lambda found: _kubelet(cloud, found)),
        "--link": (link, lambda found: _link(cloud, found)),
        "--instance": (instance, lambda found: _instance(cloud, found)),
        "--spot-notice": (spot_notice, lambda found: _spot_notice(cloud, found)),
        "--rebalance": (rebalance, lambda found: _rebalance(cloud, found)),
        "--retire": (retire, lambda found: _retire(cloud, found)),
        "--block-ends": (block_ends, lambda found: _block_ends(cloud, found)),
        "--restore": (restore, lambda found: _restored(cloud, found)),
    }
    wanted = [act for chosen, act in faults.values() if chosen]
    of_ranks = {do: rank for do, rank in (("hang", hang), ("slow", slow)) if rank is not None}
    if len(wanted) + len(of_ranks) != 1:
        raise CommandError(f"give exactly one of {', '.join([*faults, '--hang', '--slow'])}", USAGE)
    broken = _rank(cloud, target, *of_ranks.popitem()) if of_ranks else _broken(cloud, target, wanted[0], restore=restore)
    if as_json:
        print_json({**broken.facts, "did": broken.did, "restore": broken.restore.replace("NODE", target)})
    else:
        report(f"{broken.did} {broken.restore}".replace("NODE", target).strip())
    return OK


def _broken(cloud: LocalCloud, target: str, act: Callable[[RunningNode], Broken], *, restore: bool) -> Broken:
    try:
        return act(finding.find(cloud.kubernetes_folder, target))
    except finding.NoSuchNode as error:
        if restore and (done := _job_restored(cloud, target)):
            return done
        raise NotFound(str(error)) from None


def _rank(cloud: LocalCloud, job: str, do: str, rank: int) -> Broken:
    _post_ranks(cloud, job, {"do": do, "rank": rank})
    did = f"Rank {rank} of {job} has stopped." if do == "hang" else f"Rank {rank} of {job} runs only a fifth of the time."
    return Broken(did, _undo(cloud), {"job": job, "rank": rank})


def _job_restored(cloud: LocalCloud, job: str) -> Broken | None:
    """Resume the ranks of a job. Return None if the local cloud runs no ranks of this job."""
    found = _post_ranks(cloud, job, {"do": "restore"})["ranks"] if cloud.is_running() else []
    return Broken(f"All ranks of {job} continue.", "", {"job": job}) if found else None


def _post_ranks(cloud: LocalCloud, job: str, body: dict[str, Any]) -> Any:
    try:
        return cloud.control().post(f"kubernetes/jobs/{job}/ranks", body)
    except ControlError as error:
        raise CommandError(str(error), REFUSED) from None


def _gpu(cloud: LocalCloud, node: RunningNode, index: int, xid: int) -> Broken:
    try:
        uuid = gpus.break_gpu(node, index, xid)
    except gpus.NoSuchGpu as error:
        raise NotFound(str(error)) from None
    did = f"GPU {index} of {node.name} ({uuid}) has reported Xid {xid}: {xids.of(xid).text}."
    again = f"Get new GPUs with a new instance: {program()} local break NODE --instance{home_option(cloud)}"
    restore = again if xids.of(xid).sets_condition else ""
    return Broken(did, restore, {"node": node.name, "gpu": index, "uuid": uuid, "xid": xid})


def _kubelet(cloud: LocalCloud, node: RunningNode) -> Broken:
    _switch(cloud, node, "kubelet", on=False)
    return Broken(f"The kubelet of {node.name} has stopped. {UNTIL_NOT_READY}", _undo(cloud), {"node": node.name})


def _link(cloud: LocalCloud, node: RunningNode) -> Broken:
    _switch(cloud, node, "link", on=False)
    return Broken(f"The network link of {node.name} is down. {UNTIL_NOT_READY}", _undo(cloud), {"node": node.name})


def _restored(cloud: LocalCloud, node: RunningNode) -> Broken:
    for part in ("link", "kubelet"):
        _switch(cloud, node, part, on=True)
    return Broken(f"The kubelet of {node.name} is running and its link is up.", "", {"node": node.name})


def _instance(cloud: LocalCloud, node: RunningNode) -> Broken:
    region = next(one.region for one in cloud.clusters() if one.name == node.cluster)
    cloud.clients(region)("ec2").terminate_instances(InstanceIds=[node.instance])
    did = f"Instance {node.instance} of {node.name} is terminated."
    return Broken(did, "Auto Scaling replaces it.", {"node": node.name, "instance": node.instance})


def _spot_notice(cloud: LocalCloud, node: RunningNode) -> Broken:
    end = _announce(cloud, node, "interruption")
    did = f"EC2 interrupts {node.instance} of {node.name} at {end}, the time in its Spot notice. EKS drains the node now."
    return Broken(did, "Auto Scaling replaces it.", {"node": node.name, "instance": node.instance, "time": end})


def _rebalance(cloud: LocalCloud, node: RunningNode) -> Broken:
    time = _announce(cloud, node, "rebalance")
    did = f"EC2 recommends to replace {node.instance} of {node.name}. EKS drains the node once a replacement is Ready."
    return Broken(did, "", {"node": node.name, "instance": node.instance, "time": time})


def _retire(cloud: LocalCloud, node: RunningNode) -> Broken:
    end = _announce(cloud, node, "retirement")
    did = f"EC2 retires {node.instance} of {node.name} at {end}."
    seen = f"See: {program()} health {node.name} -s STACK"
    return Broken(did, seen, {"node": node.name, "instance": node.instance, "time": end})


def _block_ends(cloud: LocalCloud, node: RunningNode) -> Broken:
    """Advance the calendar to the time at which the pool's scheduled action drains the node.

    EC2 terminates the instances of the Capacity Block 15 minutes after this time.
    """
    region = next(one.region for one in cloud.clusters() if one.name == node.cluster)
    ec2 = cloud.clients(region)("ec2")
    (found,) = [one for each in ec2.describe_instances(InstanceIds=[node.instance])["Reservations"] for one in each["Instances"]]
    block = found.get("CapacityReservationId")
    reserved = ec2.describe_capacity_reservations(CapacityReservationIds=[block])["CapacityReservations"] if block else []
    end = next((one["EndDate"] for one in reserved if one.get("ReservationType") == "capacity-block"), None)
    if end is None:
        raise CommandError(
            f"{node.name} is not in a Capacity Block. Use a node of a pool whose market is capacity-block", REFUSED
        )
    control = cloud.control()
    wait = end - DRAIN_BEFORE_END - datetime.fromisoformat(asked(control, "GET", "clock")["now"])
    asked(control, "POST", "clock", {"seconds": max(wait, timedelta()).total_seconds()})
    did = f"It is {DRAIN_BEFORE_END.total_seconds() / 60:.0f} minutes before the end of {block}: Auto Scaling drains its nodes."
    return Broken(did, "", {"node": node.name, "reservation": block, "end": end.isoformat()})


def _announce(cloud: LocalCloud, node: RunningNode, notice: str) -> str:
    return str(asked(cloud.control(), "POST", f"instances/{node.instance}/{notice}", {})["time"])


def _undo(cloud: LocalCloud) -> str:
    return f"Restore it with: {program()} local break NODE --restore{home_option(cloud)}"


def _switch(cloud: LocalCloud, node: RunningNode, part: str, *, on: bool) -> None:
    try:
        cloud.control().post(f"kubernetes/nodes/{node.name}/{part}", {"on": on})
    except ControlError as error:
        raise CommandError(str(error), REFUSED) from None
