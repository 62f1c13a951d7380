"""Lists of all namespaces for users who may read only some of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from cli.clusters.allowed_namespaces import list_in_allowed_namespaces
from cli.console import print_progress_once
from cli.errors import CommandError, Forbidden

CLUSTER: Any = SimpleNamespace(
    description=lambda: SimpleNamespace(namespaces=[SimpleNamespace(name=name) for name in ("red", "blue", "green")])
)


def make_reader(*allowed: str | None) -> Any:
    def read(namespace: str | None) -> list[str]:
        if namespace not in allowed:
            raise Forbidden(f"you may not list jobs in {namespace}")
        return [f"job in {namespace}"]

    return read


@pytest.fixture(autouse=True)
def forget_printed_lines() -> None:
    print_progress_once.cache_clear()


def test_an_administrator_gets_everything_with_one_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_in_allowed_namespaces(CLUSTER, make_reader(None)) == ["job in None"]
    assert capsys.readouterr().err == ""


def test_a_job_user_gets_the_own_namespaces_and_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert list_in_allowed_namespaces(CLUSTER, make_reader("red", "green")) == ["job in red", "job in green"]
    assert capsys.readouterr().err == "cluster: only namespaces green and red: you have no access to others\n"


def test_a_user_without_any_namespace_gets_the_refusal_of_the_whole_cluster() -> None:
    with pytest.raises(Forbidden, match="you may not list jobs in None"):
        list_in_allowed_namespaces(CLUSTER, make_reader())


def test_an_error_that_is_no_refusal_ends_the_list() -> None:
    def fail(namespace: str | None) -> list[str]:
        raise Forbidden("no") if namespace is None else CommandError("the API server is down")

    with pytest.raises(CommandError, match="the API server is down"):
        list_in_allowed_namespaces(CLUSTER, fail)
