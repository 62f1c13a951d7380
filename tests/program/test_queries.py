"""Each plan-time query calls only the operations that it declares: `plan` shows them, and users grant them."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import local
from typing import Any

import pytest
from botocore.client import BaseClient

from infra.facts.gather import _Queries
from infra.facts.queries import Query
from tests.program.worlds import STACKS, start_local_account

COVERING = [path for path in STACKS if path.stem.endswith((".full", ".full-ec2", ".05-existing-vpc-and-efs", ".10-fsx-lustre"))]


@pytest.mark.parametrize("path", COVERING, ids=lambda path: path.stem)
def test_a_query_calls_only_its_declared_operations(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current, calls = local(), defaultdict[Query, set[str]](set)
    call_api: Callable[..., Any] = BaseClient._make_api_call  # type: ignore[attr-defined]
    run_query: Callable[..., Any] = _Queries._run_query

    def record_operation(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        if query := getattr(current, "query", None):
            calls[query].add(f"{client.meta.service_model.signing_name}:{operation}")
        return call_api(client, operation, arguments)

    def record_query(queries: Any, kind: Query, call: Callable[[], Any]) -> Any:
        current.query = kind
        try:
            return run_query(queries, kind, call)
        finally:
            current.query = None

    monkeypatch.setattr(BaseClient, "_make_api_call", record_operation)
    monkeypatch.setattr(_Queries, "_run_query", record_query)
    with start_local_account(path):
        pass
    assert len(calls) > 8
    assert {query: names - set(query.operations) for query, names in calls.items() if names - set(query.operations)} == {}
