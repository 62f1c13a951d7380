"""Readiness of Pods, and the reasons why Pods are not ready."""

from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.engine.kubernetes.objects import Object, get_name, get_namespace, get_nested
from localcloud.engine.kubernetes.waits.scene import POD, READY, Condition, Scene, Verdict, get_conditions, has_true_condition


def _check_pod(scene: Scene) -> Verdict:
    pod = scene.live
    for condition, doing in (("PodScheduled", "scheduled"), ("Initialized", "initialized")):
        if not has_true_condition(pod, condition):
            return Verdict(False, f'Waiting for Pod "{format_display_name(pod)}" to be {doing}')
    if has_true_condition(pod, "Ready") or get_nested(pod, "status", "phase") == "Succeeded":
        return READY
    return Verdict(False, f'Waiting for Pod "{format_display_name(pod)}" to be ready')


def format_display_name(obj: Mapping[str, Any]) -> str:
    """Return the object's name, prefixed with its namespace unless that is `default`."""
    return f"{get_namespace(obj)}/{get_name(obj)}" if get_namespace(obj) not in ("", "default") else get_name(obj)


def explain_unready_pods(pods: list[Object]) -> list[str]:
    """Return the reasons why these Pods are not ready. Pods without a known reason are omitted."""
    return [line for pod in pods if not _is_ready(pod) for line in _explain_pod(pod)]


def explain_workload(scene: Scene, owner: Object) -> list[str]:
    """Return the reasons why the Pods of a workload are not ready."""
    return explain_unready_pods(scene.find_owned_objects(POD, owner, get_nested(owner, "spec", "selector")))


def _is_ready(pod: Object) -> bool:
    return has_true_condition(pod, "Ready") or get_nested(pod, "status", "phase") == "Succeeded"


def _explain_pod(pod: Object) -> Iterator[str]:
    conditions = get_conditions(pod)
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") != "True":
        if scheduled.get("message"):
            yield f"[Pod {format_display_name(pod)}]: {scheduled['message']}"
        return
    status = "Ready" if conditions.get("Initialized", {}).get("status") == "True" else "Initialized"
    message = conditions.get(status, {}).get("message") or ""
    reasons = [line for line in (_explain_container(container) for container in _list_container_statuses(pod)) if line]
    if message or reasons:
        yield f"[Pod {format_display_name(pod)}]: {message}{''.join(reasons) if len(reasons) < 2 else chr(10).join(reasons)}"


def _list_container_statuses(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _explain_container(container: Object) -> str:
    if container.get("ready"):
        return ""
    lines = []
    waiting, ended = get_nested(container, "state", "waiting"), get_nested(container, "state", "terminated")
    if waiting and waiting.get("reason") != "ContainerCreating":
        lines.append(f"[{waiting.get('reason')}] {waiting.get('message', '')}".strip())
    if ended and ended.get("reason"):
        message = ended.get("message")
        lines.append(
            f"[{ended['reason']}] {message}"
            if message
            else f'container "{container.get("name")}" completed with exit code {ended.get("exitCode")}'
        )
    if last := get_nested(container, "lastState", "terminated"):
        when, why = last.get("finishedAt"), last.get("reason")
        lines.append(f'container "{container.get("name")}" terminated at {when} ({why}: exit code {last.get("exitCode")})')
        lines += [last["message"]] if last.get("message") else []
    return "\n".join(lines)


POD_READY = Condition(_check_pod, lambda scene: explain_unready_pods([scene.live]), when_read=True)
