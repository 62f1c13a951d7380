"""EC2 instances with all launch parameters and all states, from pending to terminated."""

from typing import Any

from moto.core.types import Base64EncodedString
from moto.ec2.models.instances import Instance, InstanceState, StateReason
from moto.ec2.utils import random_eni_attach_id, random_id

from localcloud.aws import clock, durations, events
from localcloud.aws.ec2 import capacity_reservations, interfaces, launch_interfaces, placement_groups
from localcloud.aws.ec2.launch_plan import Plan

STATES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
CARD_SLOTS = 100
"""Factor in the key of an interface: card * CARD_SLOTS + device. The primary interface has key 0.

moto uses only the device index as the key.
"""


def format_user_initiated_reason() -> str:
    """Return the `StateTransitionReason` of an instance that is being stopped or terminated."""
    return f"User initiated ({clock.now():%Y-%m-%d %H:%M:%S} GMT)"


class LaunchedInstance(Instance):
    """moto's instance, extended with all network interfaces, placement, capacity and delayed state changes."""

    def __init__(self, backend: Any, plan: Plan, index: int) -> None:
        data, placement = plan.data, plan.data.get("Placement") or {}
        self._plan: Plan | None = plan
        super().__init__(
            backend,
            plan.image.id,
            Base64EncodedString(str(data["UserData"])) if data.get("UserData") else None,
            list(plan.interfaces[0].groups),
            instance_type=plan.facts.name,
            region_name=backend.region_name,
            subnet_id=plan.interfaces[0].subnet.id,
            key_name=data.get("KeyName"),
            ebs_optimized=data.get("EbsOptimized", False),
            monitoring_state="enabled" if (data.get("Monitoring") or {}).get("Enabled") else "disabled",
            disable_api_termination=data.get("DisableApiTermination", False),
            disable_api_stop=data.get("DisableApiStop", False),
            instance_initiated_shutdown_behavior=data.get("InstanceInitiatedShutdownBehavior"),
            hibernation_options=data.get("HibernationOptions"),
            metadata_options=data.get("MetadataOptions") or {},
            placement_hostid=placement.get("HostId"),
            client_token=data.get("ClientToken"),
            ami_launch_index=index,
            lifecycle=None if plan.market == "on-demand" else plan.market,
        )
        self._plan = None
        self.launch_time = clock.now().replace(tzinfo=None)
        self.placement.group_name = plan.placement_group.name if plan.placement_group else ""
        self.placement.tenancy = placement.get("Tenancy", "default")
        self.placement_group_id = plan.placement_group.id if plan.placement_group else None
        self.partition_number = placement.get("PartitionNumber")
        self.market = plan.market
        self.spot_instance_request_id = random_id("sir", 8) if plan.market == "spot" else None
        self.capacity_reservation_id = plan.reservation.id if plan.reservation else None
        self.capacity_reservation_specification = data.get("CapacityReservationSpecification")
        self.cpu_options = {
            "CoreCount": plan.facts.cores,
            "ThreadsPerCore": plan.facts.threads_per_core,
            **(data.get("CpuOptions") or {}),
        }
        self.private_dns_name_options = data.get("PrivateDnsNameOptions")
        self.launch_template_version = data.get("_template")
        self.hypervisor = plan.facts.hypervisor
        if plan.placement_group:
            plan.placement_group.members[self.id] = plan.zone
        if plan.reservation:
            plan.reservation.users.add(self.id)

    def prep_nics(self, *_: Any, **__: Any) -> None:
        assert self._plan is not None  # moto calls this while it creates the instance
        self.nics = {}
        tags = self._plan.tags.get("network-interface", {})
        for item in self._plan.interfaces:
            interface = launch_interfaces.create(self.ec2_backend, item, tags, alone=len(self._plan.interfaces) == 1)
            self._attach_interface(interface, item.card, item.device)

    def _attach_interface(self, interface: Any, card: int, device: int) -> str:
        self.nics[card * CARD_SLOTS + device] = interface
        interface.instance, interface.status = self, "in-use"
        interface.attachment_id = random_eni_attach_id()
        interface.attach_time = self.launch_time
        interface.network_card_index, interface.device_index = card, device
        return str(interface.attachment_id)

    def attach_eni(self, eni: Any, device_index: int) -> str:
        return self._attach_interface(eni, 0, int(device_index))

    def detach_eni(self, eni: Any) -> None:
        self.nics = {slot: interface for slot, interface in self.nics.items() if interface is not eni}
        eni.instance = eni.attachment_id = eni.attach_time = eni.device_index = None
        eni.status, eni.network_card_index = "available", 0

    @property
    def state_name(self) -> str:
        return str(self._state.name)

    @state_name.setter
    def state_name(self, name: str) -> None:
        self._state = InstanceState(name, STATES[name])

    def start_running(self) -> None:
        """Set the state to pending now and to running after the emulated delay."""
        durations.schedule(self, "state_name", "pending", "running", "ec2-instance")

    @property
    def is_live(self) -> bool:
        return self.state_name not in ("shutting-down", "terminated")

    @property
    def private_ip_address(self) -> str | None:
        return self.nics[0].private_ip_address if 0 in self.nics else None

    private_ip = private_ip_address

    @property
    def public_ip_address(self) -> str | None:
        return self.nics[0].public_ip if 0 in self.nics else None

    public_ip = public_ip_address

    @property
    def private_dns_name(self) -> str:
        return interfaces.private_dns_name(self.region_name, self.private_ip_address)

    def terminate(self) -> InstanceState:
        """Set the state to shutting-down now and to terminated after the emulated delay.

        Then release an instance's interfaces, volumes, addresses and capacity.
        """
        previous = InstanceState(self._state.name, self._state.code)
        if not self.is_live:
            return previous
        self._reason = format_user_initiated_reason()
        self.state_reason = StateReason("Client.UserInitiatedShutdown: User initiated shutdown", "Client.UserInitiatedShutdown")
        # EC2 has no state for a failed termination. After a failure, resources that the instance still holds cannot be
        # deleted.
        failed = durations.make_failure_handler(self, "state_name", "terminated")
        kind, release = "ec2-instance-terminate", self._release_resources
        durations.schedule(self, "state_name", "shutting-down", "terminated", kind, release, self.is_settled, failed)
        return previous

    def is_settled(self) -> bool:
        """Return whether the realizer has applied the state change.

        Until then, an instance that is being terminated keeps its address.
        """
        backend = self.ec2_backend
        return events.query_progress("instance", self.id, backend.region_name, backend.account_id).done

    def _release_resources(self) -> None:
        backend = self.ec2_backend
        for interface in list(self.nics.values()):
            interface.public_ip = None
            if interface.delete_on_termination:
                interfaces.delete(backend, interface.id)
            else:
                self.detach_eni(interface)
        for address in backend.addresses:
            if address.instance is self or (address.eni is not None and address.eni.instance is self):
                address.instance = address.eni = address.association_id = None
        self.nics, self._subnet_id, self._private_ips = {}, None, set()
        self.teardown_defaults()
        capacity_reservations.release_instance(backend, self.id)
        _leave_placement_group(backend, self.id)
        association = backend.iam_instance_profile_associations.get(self.id)
        if association is not None:
            backend.disassociate_iam_instance_profile(association.association_id)


def _leave_placement_group(backend: Any, instance_id: str) -> None:
    for group in placement_groups.list_groups(backend):
        group.members.pop(instance_id, None)
