"""Compares two runs of the same stack and finds the differences."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

TO_THE_LOCAL_AWS: Final = ("endpoints", "httpProxy", "s3UsePathStyle", "skipCredentialsValidation", "skipMetadataApiCheck")
"""Settings that localcloud.stack uses to point an official AWS provider at the local AWS. The provider emulator does
not need these settings.
"""
SECRET_KEY: Final = "4dabf18193072939515e22adb298388d"
"""Key that marks secrets in Pulumi's state. https://www.pulumi.com/docs/iac/concepts/state-and-backends/"""
OF_ONE_RUN: Final = frozenset(
    {
        *("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "status"),
        *("clusterIP", "clusterIPs", "nodePort", "caBundle", "__fieldManager", "__defaults", "volumeName"),
    }
)
"""Properties that the server or the provider sets, so that their values differ between runs."""
MASKS: Final = (
    (
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
        "UUID",
    ),  # must precede IDs, because the end of a UUID looks like an ID
    (re.compile(r"\b([a-z]{2,10})-[0-9a-f]{8,17}\b"), r"\1-ID"),
    (re.compile(r"(?<=[a-z0-9])-[0-9a-f]{7}\b"), "-SUFFIX"),  # suffix of names that Pulumi chooses
    (re.compile(r'"[^"]*/(pulumi-language-python-exec)"'), r"\1"),
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"127\.0\.0\.\d+:\d+"), "ADDRESS"),
    (re.compile(r"[\w/.+-]*/(ours|theirs)/"), "FOLDER/"),
)
TRACEBACK: Final = "Traceback (most recent call last)"
MISSING: Final = "(missing)"


def normalize(value: Any) -> Any:
    """Return a value without the parts that differ between any two runs."""
    if isinstance(value, Mapping):
        if SECRET_KEY in value:
            return "[secret]"
        return {name: normalize(inner) for name, inner in value.items() if name not in OF_ONE_RUN}
    if isinstance(value, list):
        return [normalize(inner) for inner in value]
    return mask_variable_text(value) if isinstance(value, str) else value


def mask_variable_text(text: str) -> str:
    if TRACEBACK in text:  # which SDK tasks wait for the failed task depends on timing
        text = "\n".join(line for line in text.splitlines() if not line.startswith("  "))
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


def collect_resources(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources in a stack's state, keyed by URN: inputs and, for Kubernetes objects, the live object."""
    resources_by_urn = {}
    for resource in (state.get("deployment") or {}).get("resources") or ():
        parts = ("inputs", "outputs") if resource["type"].startswith("kubernetes:") else ("inputs",)
        ours = TO_THE_LOCAL_AWS if resource["type"] == "pulumi:providers:aws" else ()
        values = {part: resource.get(part) or {} for part in parts}
        resources_by_urn[resource["urn"]] = {
            part: normalize({key: inner[key] for key in inner if key not in ours}) for part, inner in values.items()
        }
    return resources_by_urn


def find_differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return each difference with its path."""
    return list(_iterate_differences(ours, theirs, path))


def _iterate_differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in sorted({*ours, *theirs}):
            yield from _iterate_differences(
                ours.get(name, MISSING), theirs.get(name, MISSING), f"{path}.{name}" if path else str(name)
            )
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (our_item, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _iterate_differences(our_item, other, f"{path}[{place}]")
    elif type(ours) is not type(theirs) or ours != theirs:
        yield f"{path}: ours {ours!r}, theirs {theirs!r}"
