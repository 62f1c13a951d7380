"""Environment variables that point programs at a local cloud, and variables that would point programs at a real
account.
"""

import os
from collections.abc import Mapping
from pathlib import Path

FOREIGN = (
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_SESSION_TOKEN",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "PULUMI_ACCESS_TOKEN",
)
"""Variables that would point programs at a real account:
https://docs.aws.amazon.com/sdkref/latest/guide/environment-variables.html"""
ENDPOINT_OF_A_SERVICE = "AWS_ENDPOINT_URL_"
"""Prefix of service-specific endpoint variables, which take precedence over AWS_ENDPOINT_URL."""
OFFICIAL_PROGRAMS = "GPUMPI_OFFICIAL_PROGRAMS"
"""Environment variable that contains the path of the folder with Pulumi's official programs. The folder is searched
before PATH.
"""
LOCK = "lock"
"""File that marks the folder of a local cloud."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
LOOPBACK = ("127.0.0.1", "localhost")


def list_foreign_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that programs using a local cloud must not inherit."""
    return [*FOREIGN, *sorted(name for name in environment if name.startswith(ENDPOINT_OF_A_SERVICE))]


def remove_foreign_variables(environment: Mapping[str, str]) -> dict[str, str]:
    unwanted = list_foreign_variables(environment)
    return {name: value for name, value in environment.items() if name not in unwanted}


def build_no_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt loopback addresses from the proxy; empty if no proxy is set."""
    if not any(name.lower() in PROXIES for name in environment):
        return {}
    exempt_hosts = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = ",".join(dict.fromkeys([*(host for host in exempt_hosts.split(",") if host), *LOOPBACK]))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


def strip_local_clouds_from_path() -> str:
    """Return PATH with the folder of official programs first and without the bin folders of local clouds."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    named = os.environ.get(OFFICIAL_PROGRAMS)
    other_folders = [folder for folder in folders if not (Path(folder).parent / LOCK).exists()]
    return os.pathsep.join([named, *other_folders] if named else other_folders)
