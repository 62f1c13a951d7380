"""Date-dependent states of reservations: a Capacity Block starts, EC2 terminates its instances, and the block expires.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how-it-works.html: EC2 starts to terminate the instances
30 minutes before the end.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from moto.backends import get_backend

from localcloud.aws import clock
from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_events
from localcloud.aws.ec2.capacity_reservations import CapacityReservation, list_reservations

TERMINATION = timedelta(minutes=30)


@clock.on_tick_first
def update_reservation_states(moment: datetime) -> None:
    """Bring the state of every reservation up to date."""
    for backend, reservation in _list_reservations():
        if reservation.state == "scheduled" and reservation.start <= moment:
            reservation.state = "active"
        if reservation.end is None or reservation.state != "active":
            continue
        if reservation.kind == "capacity-block" and moment >= reservation.end - TERMINATION and not reservation.is_ending:
            reservation.is_ending = True
            _terminate_instances(backend, reservation)
        if moment >= reservation.end:
            reservation.state = "expired"


def _list_reservations() -> Iterator[tuple[Any, CapacityReservation]]:
    for regions in list(get_backend("ec2").values()):
        for backend in list(regions.values()):
            for reservation in list_reservations(backend):
                yield backend, reservation


def _terminate_instances(backend: Any, reservation: CapacityReservation) -> None:
    launched = [instance for launch in backend.reservations.values() for instance in launch.instances]
    ending = [instance for instance in launched if instance.id in reservation.users and instance.is_live]
    if ending:
        instance_events.terminate(ending)
        autoscaling = backend_of("autoscaling", backend.account_id, backend.region_name)
        capacity.replace_terminated_instances(autoscaling, [instance.id for instance in ending])
