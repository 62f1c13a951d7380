"""Rank environment variables that are the same for every MPI implementation: NCCL network, cache folders, user name."""

from typing import Any

import pytest

from tests.pure.job_world import SMALL, SYSTEM, TRAIN, make_cluster, read_environment, render_pods


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_nccl_uses_libfabric_or_fails_on_a_pool_with_efa(launcher: str) -> None:
    """Without NCCL_NET, NCCL falls back to sockets without an error."""
    for role, pod in render_pods(launcher=launcher, pool="train").items():
        if role in ("launcher", "worker"):
            assert read_environment(pod)["NCCL_NET"] == "Libfabric", role
    worker = read_environment(render_pods(launcher="torchrun", pool="train")["worker"])
    assert worker["FI_EFA_USE_HUGE_PAGE"] == "0", "data loaders fork"
    assert "FI_PROVIDER" not in worker, "the plugin selects the provider itself"


@pytest.mark.parametrize("launcher", ["mpijob", "torchrun"])
def test_nccl_chooses_its_network_on_a_pool_without_efa(launcher: str) -> None:
    variables = read_environment(render_pods(launcher=launcher, pool="small")["worker"])
    assert "NCCL_NET" not in variables and "FI_EFA_USE_HUGE_PAGE" not in variables
    excluded = variables["NCCL_SOCKET_IFNAME"].removeprefix("^").split(",")
    assert {"lo", "eni", "pod-id-link"} <= set(excluded), "interfaces of Amazon's VPC CNI and of Pod Identity"


@pytest.mark.parametrize(
    ("transport", "nccl", "mpi", "network"),
    [("efa", "efa", "cm", "Libfabric"), ("tcp", "efa", "ob1", "Libfabric"), ("tcp", "tcp", "ob1", "Socket")],
    ids=["auto", "nccl", "tcp"],
)
def test_each_transport_setting_selects_networks_of_mpi_and_nccl(transport: str, nccl: str, mpi: str, network: str) -> None:
    pool = TRAIN.model_copy(update={"transport": transport, "nccl": nccl})
    launcher = read_environment(render_pods(make_cluster(pools=(SYSTEM, pool)), pool="train")["launcher"])
    assert (launcher["OMPI_MCA_pml"], launcher["NCCL_NET"]) == (mpi, network)


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
@pytest.mark.parametrize("more", [{"resources": {"efa": 0}}, {"workers": 1, "gpusPerWorker": 1}], ids=["wanted", "alone"])
def test_workers_without_efa_run_mpi_and_nccl_over_tcp(launcher: str, more: dict[str, Any]) -> None:
    """Otherwise NCCL and Open MPI would fail at startup, even on a single node."""
    there = render_pods(launcher=launcher, pool="train", **more)
    assert "vpc.amazonaws.com/efa" not in there["worker"]["containers"][0]["resources"]["limits"]
    assert read_environment(there["worker"])["NCCL_NET"] == "Socket"
    if launcher != "torchrun":
        assert read_environment(there["launcher"])["OMPI_MCA_pml"] == "ob1"


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_mpi_and_nccl_use_infiniband_or_fail_on_an_infiniband_pool(launcher: str) -> None:
    rdma = {"transport": "infiniband", "rdma_resource": "rdma/ib", "rdma_devices": 8}
    there = render_pods(make_cluster(pools=(SYSTEM, SMALL.model_copy(update=rdma))), launcher=launcher)
    worker = there["worker"]
    assert worker["containers"][0]["resources"]["limits"]["rdma/ib"] == "1"
    assert read_environment(worker)["NCCL_NET"] == "IB"
    if launcher != "torchrun":
        (main,) = there["launcher"]["containers"]
        variables = read_environment(there["launcher"])
        assert (variables["OMPI_MCA_pml"], variables["OMPI_MCA_btl"], variables["UCX_TLS"]) == ("ucx", "^tcp,openib", "^tcp")
        assert "-x UCX_TLS" in " ".join(main["command"]) and "rdma/ib" not in main["resources"]["limits"]


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"])
def test_job_may_override_pytorch_variables(name: str) -> None:
    assert read_environment(render_pods(env={name: "1"})["worker"])[name] == "1"


def test_master_addr_is_rank_0_of_the_selected_hosts() -> None:
    assert read_environment(render_pods(hosts=[1])["worker"])["MASTER_ADDR"] == "mnist-worker-1.mnist.mpi-jobs.svc"
    own = render_pods(command=["mpirun", "./a.out"])["launcher"]
    assert read_environment(own)["MASTER_ADDR"] == "mnist-worker-0.mnist.mpi-jobs.svc"


def test_cluster_descriptions_of_older_versions_use_one_transport_for_mpi_and_nccl() -> None:
    assert TRAIN.nccl is None and TRAIN.nccl_transport == "efa"
    assert SMALL.nccl_transport == "tcp"


@pytest.mark.parametrize("launcher", ["mpijob", "standalone", "torchrun"])
def test_caches_are_in_a_writable_folder_and_the_user_has_a_name(launcher: str) -> None:
    variables = read_environment(render_pods(launcher=launcher)["worker"])
    folders = ("XDG_CACHE_HOME", "HF_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "MPLCONFIGDIR")
    assert all(variables[name].startswith("/tmp/") for name in folders)
    assert (variables["USER"], variables["LOGNAME"]) == ("mpiuser", "mpiuser")


def test_job_may_override_nccl_and_cache_variables() -> None:
    variables = read_environment(render_pods(pool="train", env={"NCCL_NET": "Socket", "HF_HOME": "/shared/hf"})["worker"])
    assert (variables["NCCL_NET"], variables["HF_HOME"]) == ("Socket", "/shared/hf")


def test_ranks_started_over_ssh_get_the_same_variables() -> None:
    """SSH does not forward the environment, so mpirun's `-x` options forward each variable."""
    (launcher,) = render_pods(pool="train")["launcher"]["containers"]
    line = " ".join(launcher["command"])
    assert all(f"-x {name}" in line for name in ("NCCL_NET", "HF_HOME", "NCCL_SOCKET_IFNAME"))
