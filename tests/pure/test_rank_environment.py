"""Rank environment variables that are the same for every MPI implementation: NCCL network, cache folders, user name."""

from typing import Any

import pytest

from tests.pure.job_world import SMALL, SYSTEM, TRAIN, cluster, environment, pods


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_on_a_pool_with_efa_nccl_uses_libfabric_or_fails(launcher: str) -> None:
    """Without NCCL_NET, NCCL falls back to sockets without an error."""
    for role, pod in pods(launcher=launcher, pool="train").items():
        if role in ("launcher", "worker"):
            assert environment(pod)["NCCL_NET"] == "Libfabric", role
    worker = environment(pods(launcher="torchrun", pool="train")["worker"])
    assert worker["FI_EFA_USE_HUGE_PAGE"] == "0", "data loaders fork"
    assert "FI_PROVIDER" not in worker, "the plugin selects the provider itself"


@pytest.mark.parametrize("launcher", ["mpijob", "torchrun"])
def test_on_a_pool_without_efa_nccl_chooses_its_network(launcher: str) -> None:
    variables = environment(pods(launcher=launcher, pool="small")["worker"])
    assert "NCCL_NET" not in variables and "FI_EFA_USE_HUGE_PAGE" not in variables
    excluded = variables["NCCL_SOCKET_IFNAME"].removeprefix("^").split(",")
    assert {"lo", "eni", "pod-id-link"} <= set(excluded), "interfaces of Amazon's VPC CNI and of Pod Identity"


@pytest.mark.parametrize(
    ("transport", "nccl", "mpi", "network"),
    [("efa", "efa", "cm", "Libfabric"), ("tcp", "efa", "ob1", "Libfabric"), ("tcp", "tcp", "ob1", "Socket")],
    ids=["auto", "nccl", "tcp"],
)
def test_each_transport_setting_gives_mpi_and_nccl_their_networks(transport: str, nccl: str, mpi: str, network: str) -> None:
    pool = TRAIN.model_copy(update={"transport": transport, "nccl": nccl})
    launcher = environment(pods(cluster(pools=(SYSTEM, pool)), pool="train")["launcher"])
    assert (launcher["OMPI_MCA_pml"], launcher["NCCL_NET"]) == (mpi, network)


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
@pytest.mark.parametrize("more", [{"resources": {"efa": 0}}, {"workers": 1, "gpusPerWorker": 1}], ids=["wanted", "alone"])
def test_workers_without_efa_do_not_ask_mpi_and_nccl_for_it(launcher: str, more: dict[str, Any]) -> None:
    """Otherwise NCCL and Open MPI would fail at startup, even on a single node."""
    there = pods(launcher=launcher, pool="train", **more)
    assert "vpc.amazonaws.com/efa" not in there["worker"]["containers"][0]["resources"]["limits"]
    assert environment(there["worker"])["NCCL_NET"] == "Socket"
    if launcher != "torchrun":
        assert environment(there["launcher"])["OMPI_MCA_pml"] == "ob1"


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_on_a_pool_with_infiniband_mpi_and_nccl_use_it_or_fail(launcher: str) -> None:
    rdma = {"transport": "infiniband", "rdma_resource": "rdma/ib", "rdma_devices": 8}
    there = pods(cluster(pools=(SYSTEM, SMALL.model_copy(update=rdma))), launcher=launcher)
    worker = there["worker"]
    assert worker["containers"][0]["resources"]["limits"]["rdma/ib"] == "1"
    assert environment(worker)["NCCL_NET"] == "IB"
    if launcher != "torchrun":
        (main,) = there["launcher"]["containers"]
        variables = environment(there["launcher"])
        assert (variables["OMPI_MCA_pml"], variables["OMPI_MCA_btl"], variables["UCX_TLS"]) == ("ucx", "^tcp,openib", "^tcp")
        assert "-x UCX_TLS" in " ".join(main["command"]) and "rdma/ib" not in main["resources"]["limits"]


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"])
def test_a_job_may_override_the_variables_of_pytorch(name: str) -> None:
    assert environment(pods(env={name: "1"})["worker"])[name] == "1"


def test_rank_0_of_a_subset_of_hosts_is_the_master() -> None:
    assert environment(pods(hosts=[1])["worker"])["MASTER_ADDR"] == "mnist-worker-1.mnist.mpi-jobs.svc"
    own = pods(command=["mpirun", "./a.out"])["launcher"]
    assert environment(own)["MASTER_ADDR"] == "mnist-worker-0.mnist.mpi-jobs.svc"


def test_a_description_by_an_older_version_has_one_transport_for_both() -> None:
    assert TRAIN.nccl is None and TRAIN.nccl_transport == "efa"
    assert SMALL.nccl_transport == "tcp"


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_caches_are_in_a_writable_folder_and_the_user_has_a_name(launcher: str) -> None:
    variables = environment(pods(launcher=launcher)["worker"])
    folders = ("XDG_CACHE_HOME", "HF_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "MPLCONFIGDIR")
    assert all(variables[name].startswith("/tmp/") for name in folders)
    assert (variables["USER"], variables["LOGNAME"]) == ("mpiuser", "mpiuser")


def test_a_job_may_override_nccl_and_caches() -> None:
    variables = environment(pods(pool="train", env={"NCCL_NET": "Socket", "HF_HOME": "/shared/hf"})["worker"])
    assert (variables["NCCL_NET"], variables["HF_HOME"]) == ("Socket", "/shared/hf")


def test_ranks_started_over_ssh_get_the_variables_too() -> None:
    """SSH does not forward the environment, so mpirun's `-x` options forward each variable."""
    (launcher,) = pods(pool="train")["launcher"]["containers"]
    line = " ".join(launcher["command"])
    assert all(f"-x {name}" in line for name in ("NCCL_NET", "HF_HOME", "NCCL_SOCKET_IFNAME"))
