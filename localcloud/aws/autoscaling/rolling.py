"""Rolling replacement of a group's instances by an instance refresh, in batches.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-instance-refresh.html
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_RefreshPreferences.html
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from localcloud.aws import durations
from localcloud.aws.autoscaling import activities, capacity, group_view, launch_data
from localcloud.aws.autoscaling.refresh_log import Refresh

PATIENCE_SECONDS = 3600.0
"""How long a refresh waits until it may replace protected and standby instances, and until new instances are in
service."""
POLL_SECONDS = 60.0
_CAUSE = "in response to an instance refresh"


@dataclass(frozen=True)
class Batch:
    """Number of instances to replace and number of instances to launch in one batch."""

    replaced: int
    first: int
    """Number of new instances to launch before the old instances are terminated."""


def choose_next_batch(desired: int, left: int, least: int, most: int | None) -> Batch:
    """Return the next batch, with `left` old instances remaining and a desired capacity of `desired`.

    `least` and `most` are MinHealthyPercentage and MaxHealthyPercentage. Without `most`, a batch has at least one
    instance, which is terminated while its replacement launches. With `most`, a batch that would be empty launches an
    instance first.

    >>> choose_next_batch(10, 10, 90, None), choose_next_batch(10, 10, 100, None)
    (Batch(replaced=1, first=0), Batch(replaced=1, first=0))
    >>> choose_next_batch(10, 10, 90, 120), choose_next_batch(10, 10, 100, 100)
    (Batch(replaced=3, first=2), Batch(replaced=1, first=1))
    """
    spare = desired - math.ceil(desired * least / 100)
    more = 0 if most is None else math.floor(desired * most / 100) - desired
    if most is not None and spare + more == 0:
        more = 1
    replaced = min(left, max(1, spare + more))
    return Batch(replaced, min(more, replaced))


@dataclass
class Rolling:
    """An instance refresh in progress. Each step starts once the previous step has taken effect."""

    group: Any
    refresh: Refresh
    old: list[Any] = field(default_factory=list)
    """Instances to replace."""

    def start(self) -> None:
        version, skip = group_view.get_current_template_version(self.group), self.refresh.preferences.get("SkipMatching")
        states = [*capacity.list_members(self.group), *capacity.list_members(self.group, ("Standby",))]
        for state in states:
            used = getattr(state, "template_version", None)
            if not (skip and used is not None and used.number == version):
                self.old.append(state)
        self.refresh.total = len(self.old)
        self._replace_next_batch()

    def _replace_next_batch(self) -> None:
        """Replace the next batch. Protected and standby instances for which the refresh must wait come last."""
        self.old = [state for state in self.old if state in self.group.instance_states and not self._is_skipped(state)]
        self.refresh.left = len(self.old)
        if not self.old:
            self._end_refresh("Successful")
            return
        free = [state for state in self.old if not self._must_wait_for(state)]
        if not free:
            self._poll(
                lambda: any(not self._must_wait_for(state) for state in self.old), self._replace_next_batch, self._explain_timeout
            )
            return
        least, most = self._read_healthy_percentages()
        numbers = choose_next_batch(launch_data.compute_target_instance_count(self.group), len(free), least, most)
        batch = free[: numbers.replaced]
        if numbers.first:
            self.group.launched_first = numbers.first
            capacity.adjust_instances(self.group, _CAUSE)
            self._wait_until_in_service(lambda: self._terminate(batch))
        else:
            self._terminate(batch)

    def _terminate(self, batch: list[Any]) -> None:
        self.group.launched_first = 0
        for state in batch:
            if state in self.group.instance_states and state.lifecycle_state not in capacity.LEAVING:
                text = f"At {activities.format_current_time()} an instance was taken out of service {_CAUSE}."
                capacity.start_termination(self.group, state, text)
        self.old = [state for state in self.old if state not in batch]
        capacity.adjust_instances(self.group, _CAUSE)
        self._wait_until_in_service(lambda: self._schedule(self._read_warmup_seconds(), self._replace_next_batch))

    def _wait_until_in_service(self, then: Callable[[], None]) -> None:
        """Call `then` when all instances are in service. Until then, retry launches that EC2 rejected."""

        def has_all_instances() -> bool:
            target = launch_data.compute_target_instance_count(self.group) + self.group.launched_first
            if len(capacity.list_members(self.group)) < target:
                capacity.adjust_instances(self.group, _CAUSE)
            return bool(len(capacity.list_members(self.group)) >= target)

        def are_all_in_service() -> bool:
            return all(state.lifecycle_state == "InService" for state in capacity.list_members(self.group))

        def continue_refresh() -> None:
            if are_all_in_service():
                then()
            else:
                self._wait_until_in_service(then)

        self._poll(
            has_all_instances,
            continue_refresh,
            lambda: "New instances could not be launched within one hour.",
            are_all_in_service,
        )

    def _poll(
        self,
        is_open: Callable[[], bool],
        then: Callable[[], None],
        reason: Callable[[], str],
        gate: Callable[[], bool] | None = None,
    ) -> None:
        """Call `then` when `is_open` returns true. If this takes more than an hour, the refresh fails, as on AWS."""
        deadline = durations.get_current_time() + durations.compute_scaled_seconds(PATIENCE_SECONDS)

        def check_condition() -> None:
            if is_open():
                then()
            elif durations.get_current_time() >= deadline:
                self._end_refresh("Failed", reason())
            else:
                self._schedule(POLL_SECONDS, check_condition, gate)

        self._schedule("ec2-instance", check_condition, gate)

    def _schedule(self, duration: str | float, then: Callable[[], None], gate: Callable[[], bool] | None = None) -> None:
        durations.schedule(self.refresh, "status", "InProgress", "InProgress", duration, then=then, gate=gate, fail=self.fail)

    def fail(self, reason: str) -> None:
        """Set the refresh to Failed after an internal error of the local cloud."""
        self._end_refresh("Failed", reason)

    def _end_refresh(self, status: str, reason: str = "") -> None:
        self.group.launched_first = 0
        self.refresh.status, self.refresh.reason, self.refresh.ended = status, reason, datetime.now(UTC)

    def _read_healthy_percentages(self) -> tuple[int, int | None]:
        """Return the minimum and maximum healthy percentages of the refresh or, if unset, of the group's maintenance
        policy."""
        policy, preferences = getattr(self.group, "instance_maintenance_policy", None) or {}, self.refresh.preferences
        least = preferences.get("MinHealthyPercentage", policy.get("MinHealthyPercentage", 90))
        return int(least), preferences.get("MaxHealthyPercentage", policy.get("MaxHealthyPercentage"))

    def _read_warmup_seconds(self) -> float:
        group = self.group
        default = getattr(group, "default_instance_warmup", None)
        return float(
            self.refresh.preferences.get("InstanceWarmup", (group.health_check_grace_period or 0) if default is None else default)
        )

    def _is_skipped(self, state: Any) -> bool:
        """Return whether the refresh skips the instance."""
        preferences = self.refresh.preferences
        if state.lifecycle_state == "Standby":
            return bool(preferences.get("StandbyInstances") == "Ignore")
        return bool(state.protected_from_scale_in and preferences.get("ScaleInProtectedInstances") == "Ignore")

    def _must_wait_for(self, state: Any) -> bool:
        """Return whether the refresh must wait before it may replace the instance."""
        preferences = self.refresh.preferences
        if state.lifecycle_state == "Standby":
            return bool(preferences.get("StandbyInstances", "Wait") == "Wait")
        return bool(state.protected_from_scale_in and preferences.get("ScaleInProtectedInstances", "Wait") == "Wait")

    def _explain_timeout(self) -> str:
        """Return the failure reason for a refresh that waited too long for protected or standby instances. AWS's text
        is NOT VERIFIED (2026-11-23)."""
        names = ", ".join(sorted(state.instance_id for state in self.old))
        return f"Instances that are protected from scale in or in Standby were not released within one hour: {names}."
