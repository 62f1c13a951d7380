"""EFS and FSx for Lustre volumes: sharing across nodes, dynamic provisioning, and reported reasons for failed mounts.

FSx for Lustre also imports files from a bucket and exports files to it.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localcloud import mending
from localcloud.kubernetes.control_plane import API_SERVER
from testkit.eks_clusters import REGION, Account, Running
from testkit.file_systems import Storage
from testkit.node_groups import (
    NodeGroup,
    Object,
    build_pod,
    create_node_group,
    create_pods,
    get_name,
    wait_for_output,
    wait_for_phase,
)
from testkit.waiting import wait_until, wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")

DRIVER = "efs.csi.aws.com"
LUSTRE = "fsx.csi.aws.com"
BUCKET = "kubernetes-data-sets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def storage_cluster(account: Account) -> Iterator[Running]:
    """A cluster with the EFS CSI driver add-on."""
    cluster = account.create("stored")
    role = account.world.pod_role
    driver = "arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy"
    account.client("iam").attach_role_policy(RoleName=role.rsplit("/", 1)[-1], PolicyArn=driver)
    cluster.account.eks.create_addon(
        clusterName=cluster.name,
        addonName="aws-efs-csi-driver",
        podIdentityAssociations=[{"serviceAccount": "efs-csi-controller-sa", "roleArn": role}],
    )
    yield cluster
    cluster.delete()


@pytest.fixture(scope="module")
def nodes(storage_cluster: Running) -> Iterator[list[Object]]:
    """Two real nodes that have registered the EFS CSI driver."""
    with create_node_group(storage_cluster, "train", 2, "p4d.24xlarge") as group:
        assert group.describe()["status"] == "ACTIVE", group.describe()["health"]
        wait_while(lambda: list_driver_nodes(storage_cluster), lambda names: len(names) < 2)
        yield NodeGroup.list_real_nodes(group)


def list_driver_nodes(cluster: Running, driver: str = DRIVER) -> list[str]:
    """Return the nodes whose kubelet has registered the CSI driver."""
    csi_nodes = cluster.api.get("/apis/storage.k8s.io/v1/csinodes")["items"]
    return [get_name(node) for node in csi_nodes if any(entry["name"] == driver for entry in node["spec"].get("drivers") or ())]


@pytest.fixture(scope="module")
def storage(account: Account) -> Storage:
    return Storage(account)


@pytest.fixture(scope="module")
def file_system(storage: Storage) -> Iterator[str]:
    name = storage.create("shared")
    yield name
    storage.delete_file_system(name)
    wait_while(lambda: (storage.root / name).exists(), bool)


@contextmanager
def create_volume(cluster: Running, name: str, handle: str, driver: str = DRIVER, **attributes: str) -> Iterator[None]:
    """Create a static PersistentVolume and its claim."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "csi": {"driver": driver, "volumeHandle": handle, "volumeAttributes": attributes},
            # volume and claim reference each other; otherwise Kubernetes binds them only in its next 15-second sync
            "claimRef": {"namespace": "default", "name": name},
        },
    }
    cluster.api.create(VOLUMES, volume)
    try:
        with create_claim(cluster, name, "", volumeName=name):
            wait_while(lambda: cluster.api.get(f"{CLAIMS}/{name}")["status"], lambda status: status["phase"] != "Bound")
            yield
    finally:
        cluster.api.delete(f"{VOLUMES}/{name}")


@contextmanager
def create_claim(cluster: Running, name: str, storage_class: str, **spec: Any) -> Iterator[None]:
    claim_spec = {"storageClassName": storage_class, "accessModes": ["ReadWriteMany"], **spec}
    claim_spec["resources"] = {"requests": {"storage": "1Gi"}}
    cluster.api.create(
        CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim_spec}
    )
    try:
        yield
    finally:
        cluster.api.delete(f"{CLAIMS}/{name}")
        wait_while(lambda: cluster.api.find(f"{CLAIMS}/{name}"), lambda claim: claim is not None)


@contextmanager
def create_storage_class(cluster: Running, name: str, **parameters: str) -> Iterator[None]:
    all_parameters = {"provisioningMode": "efs-ap", "directoryPerms": "700", "uid": "1000", "gid": "1000"} | parameters
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "parameters": all_parameters,
    }
    cluster.api.create(CLASSES, storage_class)
    try:
        yield
    finally:
        cluster.api.delete(f"{CLASSES}/{name}")


def build_volume_pod(name: str, claim: str, program: str, node: Object | None = None, **mount: Any) -> Object:
    """Return a pod that mounts the claim and runs with the user id that job images and access points use."""
    pod = build_pod(
        name,
        program,
        node=node,
        securityContext={"runAsUser": 1000, "runAsGroup": 1000},
        volumes=[{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}],
        container={"volumeMounts": [{"name": "shared", "mountPath": "/shared", **mount}]},
    )
    pod["metadata"]["labels"] = {}
    return pod


WRITE = """
import json, os, socket, time
open(f"/shared/{socket.gethostname()}", "w").write("here")
deadline = time.monotonic() + 60
while len(os.listdir("/shared")) < 2 and time.monotonic() < deadline:
    time.sleep(0.1)
print(json.dumps({"seen": sorted(os.listdir("/shared")), "mode": oct(os.stat("/shared").st_mode & 0o777)}))
"""


@pytest.mark.mission("D", "shared volume")
def test_pods_on_two_nodes_see_the_same_files(
    storage_cluster: Running, nodes: list[Object], storage: Storage, file_system: str
) -> None:
    point = storage.create_access_point(file_system, "/two")
    with create_volume(storage_cluster, "two", f"{file_system}::{point}"):
        pods = [build_volume_pod(f"writer-{number}", "two", WRITE, node) for number, node in enumerate(nodes)]
        with create_pods(storage_cluster, *pods):
            outputs = [wait_for_output(storage_cluster, f"writer-{number}") for number in range(2)]
            placed = {wait_for_phase(storage_cluster, f"writer-{number}", "Succeeded")["spec"]["nodeName"] for number in range(2)}
    assert placed == {get_name(node) for node in nodes}, "the pods run on different nodes"
    for each in outputs:
        assert each == {"seen": ["writer-0", "writer-1"], "mode": "0o775"}
    folder = storage.root / file_system / "two"
    assert sorted(path.name for path in folder.iterdir()) == ["writer-0", "writer-1"]
    assert (folder.stat().st_uid, (folder / "writer-0").stat().st_uid) == (1000, 1000)


def test_files_outlive_the_pods_that_wrote_them(
    storage_cluster: Running, nodes: list[Object], storage: Storage, file_system: str
) -> None:
    read = "import json; print(json.dumps(open('/shared/file').read()))"
    write = "import json; print(json.dumps(open('/shared/file', 'w').write('kept')))"
    with create_volume(storage_cluster, "kept", f"{file_system}::{storage.create_access_point(file_system, '/kept')}"):
        with create_pods(storage_cluster, build_volume_pod("first", "kept", write, nodes[0])):
            assert wait_for_output(storage_cluster, "first") == 4
        with create_pods(storage_cluster, build_volume_pod("second", "kept", read, nodes[1])):
            assert wait_for_output(storage_cluster, "second") == "kept"


def test_a_read_only_mount_rejects_writes(
    storage_cluster: Running, nodes: list[Object], storage: Storage, file_system: str
) -> None:
    program = """
import json
try:
    open("/shared/file", "w")
    print(json.dumps("written"))
except OSError as error:
    print(json.dumps(error.strerror))
"""
    with create_volume(storage_cluster, "ro", f"{file_system}::{storage.create_access_point(file_system, '/ro')}"):
        pod = build_volume_pod("reader", "ro", program, nodes[0])
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
        with create_pods(storage_cluster, pod):
            assert wait_for_output(storage_cluster, "reader") == "Read-only file system"


# --- failed mounts: the pod waits, and an event gives the reason


def wait_for_mount_failure(cluster: Running, name: str) -> str:
    """Return the pod's first FailedMount event; check that the pod has no container yet."""

    def list_mount_failures() -> list[str]:
        events = cluster.api.get(EVENTS, fieldSelector=f"involvedObject.name={name},reason=FailedMount")["items"]
        return [event["message"] for event in events if event["message"].startswith("MountVolume.SetUp failed")]

    def list_waiting_reasons() -> list[str]:
        status = cluster.api.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
        return [
            container["state"]["waiting"]["reason"]
            for container in status.get("containerStatuses", ())
            if "waiting" in container["state"]
        ]

    message = wait_while(list_mount_failures, lambda messages: not messages)[0]
    assert wait_while(list_waiting_reasons, lambda reasons: not reasons) == ["ContainerCreating"]
    return str(message)


def try_mount(cluster: Running, node: Object, name: str, handle: str, **attributes: str) -> str:
    with create_volume(cluster, name, handle, **attributes), create_pods(cluster, build_volume_pod(name, name, "pass", node)):
        return wait_for_mount_failure(cluster, name)


def test_a_missing_file_system_keeps_the_pod_waiting(storage_cluster: Running, nodes: list[Object]) -> None:
    message = try_mount(storage_cluster, nodes[0], "missing", "fs-00000000::fsap-00000000")
    assert message.endswith("file system fs-00000000 does not exist")
    assert "Could not mount 'fs-00000000::fsap-00000000'" in message


def test_a_missing_access_point_keeps_the_pod_waiting(storage_cluster: Running, nodes: list[Object], file_system: str) -> None:
    message = try_mount(storage_cluster, nodes[0], "no-point", f"{file_system}::fsap-00000000")
    assert message.endswith("access point fsap-00000000 does not exist")


def test_an_access_point_of_another_file_system_keeps_the_pod_waiting(
    storage_cluster: Running, nodes: list[Object], storage: Storage, file_system: str
) -> None:
    other = storage.create("other")
    point = storage.create_access_point(other)
    message = try_mount(storage_cluster, nodes[0], "foreign", f"{file_system}::{point}")
    storage.delete_file_system(other)
    assert message.endswith(f"access point {point} belongs to file system {other}, not to {file_system}")


def test_a_node_in_a_zone_without_a_mount_target_cannot_mount(
    storage_cluster: Running, nodes: list[Object], storage: Storage
) -> None:
    elsewhere = storage.create("elsewhere", zone=1)
    message = try_mount(storage_cluster, nodes[0], "elsewhere", f"{elsewhere}::{storage.create_access_point(elsewhere)}")
    storage.delete_file_system(elsewhere)
    assert message.endswith(f"has no mount target in {REGION}a of the node's VPC; its mount targets are in {REGION}b")


def test_a_pending_pod_starts_after_the_volume_problem_is_fixed(
    storage_cluster: Running, nodes: list[Object], storage: Storage
) -> None:
    late = storage.create("late", zone=None)
    point = storage.create_access_point(late)
    with (
        create_volume(storage_cluster, "late", f"{late}::{point}"),
        create_pods(storage_cluster, build_volume_pod("late", "late", "print(1)", nodes[0])),
    ):
        assert "has no mount target" in wait_for_mount_failure(storage_cluster, "late")
        group = storage_cluster.account.client("ec2").create_security_group(
            GroupName="late", Description="NFS", VpcId=storage_cluster.account.world.vpc
        )["GroupId"]
        everybody = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        storage_cluster.account.client("ec2").authorize_security_group_ingress(GroupId=group, IpPermissions=[everybody])
        subnet = storage_cluster.account.world.subnets[0]
        storage.efs.create_mount_target(FileSystemId=late, SubnetId=subnet, SecurityGroups=[group])
        assert wait_for_output(storage_cluster, "late") == 1
    storage.delete_file_system(late)


# --- dynamic provisioning


def test_a_dynamic_volume_claim_gets_its_own_access_point_and_releases_it(
    storage_cluster: Running, nodes: list[Object], storage: Storage, file_system: str
) -> None:
    before = {point["AccessPointId"] for point in storage.list_access_points(file_system)}
    write = "import json, os; open('/shared/x', 'w'); print(json.dumps(os.listdir('/shared')))"
    with create_storage_class(storage_cluster, "efs", fileSystemId=file_system, basePath="/dynamic"):
        with (
            create_claim(storage_cluster, "dynamic", "efs"),
            create_pods(storage_cluster, build_volume_pod("dynamic", "dynamic", write)),
        ):
            assert wait_for_output(storage_cluster, "dynamic") == ["x"]
            (access_point,) = [point for point in storage.list_access_points(file_system) if point["AccessPointId"] not in before]
            uid = storage_cluster.api.get(f"{CLAIMS}/dynamic")["metadata"]["uid"]
            assert access_point["RootDirectory"]["Path"] == f"/dynamic/pvc-{uid}"
            assert {"Key": "efs.csi.aws.com/cluster", "Value": "true"} in access_point["Tags"]
            handle = storage_cluster.api.get(f"{VOLUMES}/pvc-{uid}")["spec"]["csi"]["volumeHandle"]
            assert handle == f"{file_system}::{access_point['AccessPointId']}"
        wait_while(lambda: storage_cluster.api.find(f"{VOLUMES}/pvc-{uid}"), lambda volume: volume is not None)
    assert {point["AccessPointId"] for point in storage.list_access_points(file_system)} == before


def test_the_event_of_an_unprovisionable_volume_claim_gives_the_reason(storage_cluster: Running, nodes: list[Object]) -> None:
    with (
        create_storage_class(storage_cluster, "broken", fileSystemId="fs-00000000"),
        create_claim(storage_cluster, "broken", "broken"),
    ):

        def list_provisioning_failures() -> list[str]:
            which = "involvedObject.name=broken,reason=ProvisioningFailed"
            return [event["message"] for event in storage_cluster.api.get(EVENTS, fieldSelector=which)["items"]]

        (message,) = wait_while(list_provisioning_failures, lambda messages: not messages)
    assert message.startswith('failed to provision volume with StorageClass "broken": ')
    assert "FileSystemNotFound" in message


def test_volumes_are_unmounted_after_the_pod_ends(
    storage_cluster: Running, nodes: list[Object], storage: Storage, file_system: str
) -> None:
    """The kubelet unmounts a deleted pod's volume from the node."""
    with create_volume(storage_cluster, "gone", f"{file_system}::{storage.create_access_point(file_system, '/gone')}"):
        with create_pods(storage_cluster, build_volume_pod("gone", "gone", "print(1)", nodes[0])):
            assert wait_for_output(storage_cluster, "gone") == 1
        title = get_name(nodes[0]).split(".")[0]
        first = storage_cluster.find_process(f"kubelet-{title}").pid
        mounts = Path(f"/proc/{first}/task/{first}/children").read_text().split()[0]
        wait_while(lambda: Path(f"/proc/{mounts}/mountinfo").read_text(), lambda text: "kubernetes.io~csi/gone" in text)


def test_a_csi_driver_registers_again_after_an_api_server_outage(storage_cluster: Running, nodes: list[Object]) -> None:
    """The kubelet stops trying to register a driver after a third of a second. The kubelet retries only if the driver's socket
    appears again.
    """
    driver = storage_cluster.find_process(f"efs-csi-{get_name(nodes[0]).split('.')[0]}")
    socket = Path(f"/proc/{driver.pid}", "root", f"var/lib/kubelet/plugins_registry/{DRIVER}-reg.sock")
    before = len(Path(driver.log).read_text())
    os.kill(storage_cluster.find_process(API_SERVER).pid, signal.SIGKILL)
    try:
        wait_until(lambda: storage_cluster.state.crashes, bool)
        socket.rename(socket.with_name(f".{socket.name}")).rename(socket)
        wait_until(lambda: Path(driver.log).read_text()[before:], lambda text: "failed to register the driver" in text)
    finally:
        mending.restart_crashed_processes(storage_cluster.cloud)
    wait_until(lambda: Path(driver.log).read_text()[before:], lambda text: "the kubelet registered the driver" in text)
    assert get_name(nodes[0]) in list_driver_nodes(storage_cluster)


def test_deleting_the_add_on_removes_the_csi_driver(storage_cluster: Running, nodes: list[Object]) -> None:
    """This must be the last EFS test in this module, because the other EFS tests need the add-on."""
    storage_cluster.account.eks.delete_addon(clusterName=storage_cluster.name, addonName="aws-efs-csi-driver")
    wait_while(lambda: list_driver_nodes(storage_cluster), bool)
    wait_while(lambda: storage_cluster.api.find(f"/apis/storage.k8s.io/v1/csidrivers/{DRIVER}"), bool)
    assert not [process for process in storage_cluster.state.processes if process.name.startswith("efs-csi-")]
    assert json.dumps(storage_cluster.describe()["health"]) == '{"issues": []}'


# --- FSx for Lustre


@pytest.fixture(scope="module")
def lustre(storage_cluster: Running, nodes: list[Object]) -> Iterator[Object]:
    """A file system with a data repository association. The cluster's nodes have registered the FSx CSI driver."""
    world, ec2, fsx, s3 = (
        storage_cluster.account.world,
        *(storage_cluster.account.client(service) for service in ("ec2", "fsx", "s3")),
    )
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=BUCKET, Key="sets/in.txt", Body=b"from the bucket")
    owner = {"file-owner": "1000", "file-group": "1000", "file-permissions": "0040755"}
    s3.put_object(Bucket=BUCKET, Key="sets/out/", Body=b"", Metadata=owner)
    group = ec2.create_security_group(GroupName="lustre", Description="Lustre", VpcId=world.vpc)["GroupId"]
    everybody = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[everybody])
    name = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=world.subnets[:1],
        SecurityGroupIds=[group],
        FileSystemTypeVersion="2.15",
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]
    description: Object = fsx.describe_file_systems(FileSystemIds=[name])["FileSystems"][0]
    fsx.create_data_repository_association(
        FileSystemId=name,
        FileSystemPath="/data",
        DataRepositoryPath=f"s3://{BUCKET}/sets",
        BatchImportMetaDataOnCreate=True,
        S3={"AutoImportPolicy": {"Events": ["NEW"]}, "AutoExportPolicy": {"Events": ["NEW"]}},
    )
    storage_cluster.account.eks.create_addon(clusterName=storage_cluster.name, addonName="aws-fsx-csi-driver")
    wait_while(lambda: list_driver_nodes(storage_cluster, LUSTRE), lambda names: len(names) < len(nodes))
    yield description
    fsx.delete_file_system(FileSystemId=name)


COPY = """
import json
open("/shared/data/out/result.txt", "w").write("from the pod")
print(json.dumps(open("/shared/data/in.txt").read()))
"""


def test_a_pod_reads_an_object_from_the_bucket_and_its_new_file_is_exported_to_the_bucket(
    storage_cluster: Running, lustre: Object
) -> None:
    attributes = {"dnsname": lustre["DNSName"], "mountname": lustre["LustreConfiguration"]["MountName"]}
    s3 = storage_cluster.account.client("s3")
    with (
        create_volume(storage_cluster, "lustre", lustre["FileSystemId"], LUSTRE, **attributes),
        create_pods(storage_cluster, build_volume_pod("copy", "lustre", COPY)),
    ):
        assert wait_for_output(storage_cluster, "copy") == "from the bucket"
    keys = wait_while(
        lambda: [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET)["Contents"]],
        lambda keys: "sets/out/result.txt" not in keys,
    )
    assert "sets/out/result.txt" in keys
    assert s3.get_object(Bucket=BUCKET, Key="sets/out/result.txt")["Body"].read() == b"from the pod"
