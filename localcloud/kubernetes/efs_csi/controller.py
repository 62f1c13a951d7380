"""The driver's controller: provisions and deletes volumes and their access points. Runs in the local AWS process."""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.aws import gateway, listening
from localcloud.kubernetes.client import Api, ApiError
from localcloud.kubernetes.efs_csi import DRIVER, handles, provisioning
from localcloud.kubernetes.efs_csi.handles import Handle
from localcloud.kubernetes.efs_csi.provisioning import Json, Unprovisionable
from localcloud.kubernetes.pod_identity import credentials
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused, Pod
from localcloud.kubernetes.running import RunningCluster

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = "efs-csi-controller-sa"
WATCH_SECONDS = 10
"""Duration of a watch. The next watch lists all objects again, so the controller retries failed operations."""
PAUSE_SECONDS = 1.0
_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"


class Controller:
    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch_objects, args=arguments, name=f"efs-csi-{cluster.id}", daemon=True)
            for arguments in ((_CLAIMS, self._provision_volume), (_VOLUMES, self._delete_volume))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads when their current watches end."""
        self._ending.set()

    def _watch_objects(self, path: str, handle: Callable[[Json], None]) -> None:
        while not self._ending.is_set():
            try:
                for event in self._cluster.api.watch(path, seconds=WATCH_SECONDS):
                    if self._ending.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED"):
                        handle(event["object"])
            except (OSError, HTTPException, ApiError, ValueError) as error:  # the API server is restarting or stopped
                log.debug("watching %s: %r", path, error)
                self._ending.wait(PAUSE_SECONDS)

    def _provision_volume(self, claim: Json) -> None:
        if not provisioning.must_provision(claim):
            return
        try:
            storage_class = self._api.find(f"/apis/storage.k8s.io/v1/storageclasses/{claim['spec']['storageClassName']}")
            if storage_class is None:
                return
            handle = self._create_access_point(storage_class, claim)
        except (Unprovisionable, CredentialsRefused, ClientError, BotoCoreError) as error:
            message = f'failed to provision volume with StorageClass "{claim["spec"]["storageClassName"]}": {error}'
            self._record_event(claim, "ProvisioningFailed", message, "Warning")
            return
        try:
            self._api.create(_VOLUMES, provisioning.build_volume(storage_class, claim, str(handle)))
        except ApiError as error:
            if error.status == 409:  # an earlier event for this claim already created the volume
                return
            raise
        self._record_event(
            claim, "ProvisioningSucceeded", f"Successfully provisioned volume {provisioning.build_volume_name(claim)}"
        )

    def _create_access_point(self, storage_class: Json, claim: Json) -> Handle:
        efs = self._create_efs_client()
        file_system = provisioning.parse_file_system_id(storage_class)
        points = [
            point
            for page in efs.get_paginator("describe_access_points").paginate(FileSystemId=file_system)
            for point in page["AccessPoints"]
        ]
        token = provisioning.build_volume_name(claim)
        existing = next((point for point in points if point["ClientToken"] == token), None)
        if existing is not None:
            return Handle(file_system, existing["AccessPointId"])
        taken = {point["PosixUser"]["Gid"] for point in points if point.get("PosixUser")}
        created = efs.create_access_point(**provisioning.plan_access_point(storage_class, claim, taken).request())
        log.info("claim %s: access point %s", token, created["AccessPointId"])
        return Handle(file_system, created["AccessPointId"])

    def _delete_volume(self, volume: Json) -> None:
        if not provisioning.must_delete(volume):
            return
        handle = handles.parse(volume["spec"]["csi"]["volumeHandle"])
        try:
            self._create_efs_client().delete_access_point(AccessPointId=handle.access_point)
        except (CredentialsRefused, ClientError, BotoCoreError) as error:
            if "AccessPointNotFound" not in str(error):
                self._record_event(volume, "VolumeFailedDelete", str(error), "Warning")
                return
        self._api.delete(f"{_VOLUMES}/{volume['metadata']['name']}")
        log.info("deleted volume %s and its access point", volume["metadata"]["name"])

    @property
    def _api(self) -> Api:
        return self._cluster.api

    def _create_efs_client(self) -> Any:
        """Return an EFS client that, like the real controller, uses the IAM role of the controller's service
        account."""
        import boto3  # slow to import

        cluster = self._cluster
        pod = Pod("kube-system", SERVICE_ACCOUNT, "efs-csi-controller", "efs-csi-controller")
        with gateway.LOCK:
            keys = credentials.assume_pod_role(cluster.account, cluster.region, cluster.name, pod)
        session = boto3.session.Session(
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["Token"],
            region_name=cluster.region,
        )
        return session.client("efs", endpoint_url=listening.get_url())

    def _record_event(self, about: Mapping[str, Any], reason: str, message: str, kind: str = "Normal") -> None:
        """Record an event, which `kubectl describe` shows. If the event already exists, increment its count."""
        metadata = about["metadata"]
        namespace = metadata.get("namespace", "default")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"{metadata['name']}.{reason.lower()}"
        path = f"/api/v1/namespaces/{namespace}/events/{name}"
        existing = self._api.find(path)
        if existing is not None and existing["message"] == message:
            self._api.patch(path, {"count": existing["count"] + 1, "lastTimestamp": now})
            return
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": about["kind"], **_build_object_reference(metadata)},
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": DRIVER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        if existing is not None:
            self._api.delete(path)
        self._api.create(f"/api/v1/namespaces/{namespace}/events", event)


def _build_object_reference(metadata: Mapping[str, Any]) -> Json:
    return {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion") if key in metadata}
