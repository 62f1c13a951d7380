"""The emulated autoscaler parses quantities, durations and flags as Kubernetes and the real autoscaler do."""

import pytest

from localcloud.kubernetes.autoscaler import flags, objects, quantities


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("2", 2000),
        (2, 2000),
        ("500m", 500),
        ("0.1", 100),
        ("1.5", 1500),
        (".5", 500),
        ("1k", 1_000_000),
        ("10Gi", 10 * 1024**3 * 1000),
        ("5120Mi", 5120 * 1024**2 * 1000),
        ("1e3", 1_000_000),
        ("1E", 10**21),
        ("100u", 1),
        ("1n", 1),
    ],
)
def test_quantities_parse_as_in_kubernetes(text: str | int, thousandths: int) -> None:
    assert quantities.parse_quantity(text) == thousandths


@pytest.mark.parametrize("text", ["", "x", "1Kb", "1 Gi", "--1"])
def test_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantities.parse_quantity(text)


def make_container(cpu: str | None = None, **more: object) -> dict[str, object]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu} if cpu else {}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [make_container("1"), make_container("2")]}, 3000),
        ({"containers": [make_container("1")], "initContainers": [make_container("5"), make_container("3")]}, 5000),
        ({"containers": [make_container("1")], "initContainers": [make_container("2", restartPolicy="Always")]}, 3000),
        (
            {
                "containers": [make_container("1")],
                "initContainers": [make_container("1", restartPolicy="Always"), make_container("4")],
            },
            5000,
        ),
        ({"containers": [make_container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "7"}}}]}, 7000),
    ],
)
def test_pod_requests_match_scheduler_calculation(spec: dict[str, object], cpu: int) -> None:
    assert objects.compute_requests(spec)["cpu"] == cpu
    assert objects.compute_requests(spec)["pods"] == 1000


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("1h30m", 5400), ("0.5s", 0.5), ("500ms", 0.5), ("0", 0), ("0s", 0), ("2m30s", 150)]
)
def test_durations_parse_as_in_go(text: str, seconds: float) -> None:
    assert flags.parse_duration(text) == seconds


def test_flags_of_upstream_autoscaler_are_accepted() -> None:
    options = flags.parse(
        [
            "--v=4",
            "--logtostderr=true",
            "--cloud-provider=aws",
            "--skip-nodes-with-local-storage=false",
            "--expander=least-waste",
            "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/demo=owned",
            "--scale-down-unneeded-time=20s",
            "-scan-interval=2s",
            "--balance-similar-node-groups",
            "--skip-nodes-with-system-pods",
        ]
    )
    assert options.discovery == ({"k8s.io/cluster-autoscaler/enabled": None, "k8s.io/cluster-autoscaler/demo": "owned"},)
    assert (options.scale_down_unneeded_time, options.scan_interval) == (20, 2)
    assert not options.rules.skip_local_storage and options.rules.skip_system_pods
    assert options.ignored == ("v", "logtostderr", "balance-similar-node-groups")


def test_default_intervals_match_upstream_autoscaler() -> None:
    options = flags.parse([])
    assert (options.scan_interval, options.scale_down_unneeded_time, options.scale_down_delay_after_add) == (10, 600, 600)
    assert options.max_node_provision_time == 900


@pytest.mark.parametrize(
    "argument",
    ["--no-such-flag=1", "--cloud-provider=gce", "--scan-interval=ten", "--node-group-auto-discovery=tag=x", "--expander=price"],
)
def test_unknown_flag_exits_with_error(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        flags.parse([argument])
    assert "cluster-autoscaler: error:" in capsys.readouterr().err
