"""Kubernetes versions that EKS offers, with their end-of-support dates.

https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from localcloud.aws import images
from localcloud.aws.call import Call
from localcloud.aws.eks.errors import build_invalid_parameter_error
from localcloud.aws.eks.state import Record, build_page
from localcloud.aws.patching import operation

AS_OF = date(2026, 11, 21)
"""The local EKS offers the Kubernetes versions that were available on this date.

The date is fixed, so that test results do not change over time.
"""

DEFAULT = "1.35"
"""Kubernetes version that CreateCluster uses by default."""


@dataclass(frozen=True)
class KubernetesVersion:
    name: str
    platform: str
    released: date | None = None
    standard_until: date | None = None
    extended_until: date | None = None

    @property
    def minor(self) -> int:
        return int(self.name.split(".")[1])

    @property
    def patch(self) -> str:
        """Patch version of new control planes and node AMIs."""
        return images.KUBERNETES_PATCHES[self.name]

    @property
    def support(self) -> str:
        if self.extended_until is not None and self.extended_until < AS_OF:
            return "UNSUPPORTED"
        if self.standard_until is not None and self.standard_until < AS_OF:
            return "EXTENDED_SUPPORT"
        return "STANDARD_SUPPORT"


VERSIONS = {
    version.name: version
    for version in (
        # The dates are from the EKS user guide's release calendar and endoflife.date/amazon-eks. No dates were found
        # for Kubernetes 1.36.
        KubernetesVersion("1.30", "eks.66", date(2024, 5, 23), date(2025, 7, 23), date(2026, 7, 23)),
        KubernetesVersion("1.31", "eks.58", date(2024, 9, 26), date(2025, 11, 26), date(2026, 11, 26)),
        KubernetesVersion("1.32", "eks.42", date(2025, 1, 23), date(2026, 3, 23), date(2027, 3, 23)),
        KubernetesVersion("1.33", "eks.35", date(2025, 5, 29), date(2026, 7, 29), date(2027, 7, 29)),
        KubernetesVersion("1.34", "eks.21", date(2025, 10, 2), date(2026, 12, 2), date(2027, 12, 2)),
        KubernetesVersion("1.35", "eks.11", date(2026, 1, 27), date(2027, 3, 27), date(2028, 3, 27)),
        KubernetesVersion("1.36", "eks.5"),
    )
}


def find_offered_version(name: str) -> KubernetesVersion:
    """Return the version. Raise EKS's error if EKS does not offer the version for new clusters and updates."""
    version = VERSIONS.get(name)
    if version is None or version.support == "UNSUPPORTED":
        raise build_invalid_parameter_error("unsupported Kubernetes version")
    return version


def parse_minor_version(name: str) -> int:
    return int(name.split(".")[1])


def _to_midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _describe(version: KubernetesVersion) -> Record:
    answer: Record = {
        "clusterVersion": version.name,
        "clusterType": "eks",
        "defaultPlatformVersion": version.platform,
        "defaultVersion": version.name == DEFAULT,
        "status": version.support.lower().replace("_", "-"),
        "versionStatus": version.support,
        "kubernetesPatchVersion": version.patch,
    }
    dates = {
        "releaseDate": version.released,
        "endOfStandardSupportDate": version.standard_until,
        "endOfExtendedSupportDate": version.extended_until,
    }
    return answer | {name: _to_midnight(day) for name, day in dates.items() if day is not None}


@operation("eks", "DescribeClusterVersions")
def describe_cluster_versions(call: Call) -> Record:
    params = call.params
    unknown = [name for name in params.get("clusterVersions", []) if name not in VERSIONS]
    if unknown:
        raise build_invalid_parameter_error(f"Invalid cluster version(s): {', '.join(unknown)}")
    support_status = params.get("versionStatus") or (params.get("status") or "").upper().replace("-", "_")
    chosen = [
        version
        for version in sorted(VERSIONS.values(), key=lambda version: -version.minor)
        if (not params.get("clusterVersions") or version.name in params["clusterVersions"])
        and (not params.get("defaultOnly") or version.name == DEFAULT)
        and (not support_status or version.support == support_status)
        # EKS lists versions past their end of support only on request.
        and (params.get("includeAll") or params.get("clusterVersions") or support_status or version.support != "UNSUPPORTED")
        and params.get("clusterType", "eks") == "eks"
    ]
    return build_page(call, "clusterVersions", [_describe(version) for version in chosen])
