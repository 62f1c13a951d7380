"""Control API of the local AWS process under `/local-cloud/`, with JSON requests and responses.

Every request needs a token. Listening sockets differ in their tokens, and in the paths that they offer.
"""

import hmac
import json
import logging
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

from werkzeug.wrappers import Request, Response

from localcloud import problems
from localcloud.aws import calls, clock, control_actions, durations, faults, gateway, inventory, prerequisites, quotas
from localcloud.aws.control_actions import action
from localcloud.aws.ec2 import capacity_reservations
from localcloud.aws.listening import Offer

log = logging.getLogger(__name__)


def handle_request(request: Request, offer: Offer) -> Response:
    path = request.path.removeprefix("/local-cloud/").rstrip("/")
    if not path.startswith(offer.paths):
        return _build_json_response({"error": "this address does not offer the request"}, 404)
    if not hmac.compare_digest(_read_token(request).encode(), offer.token.encode()):
        return _build_json_response(
            {"error": "the header Authorization must be: Bearer <secret access key of the local cloud>"}, 401
        )
    if request.get_data() and request.mimetype != "application/json":
        return _build_json_response({"error": "the header Content-Type must be: application/json"}, 415)
    function, variables = control_actions.find_action(request.method, path)
    if function is None:
        known_requests = ", ".join(control_actions.list_requests())
        return _build_json_response({"error": f"no {request.method} /local-cloud/{path}. Known requests: {known_requests}"}, 404)
    try:
        body = json.loads(request.get_data() or b"null")
        with gateway.LOCK:
            return _build_json_response(function(body, **variables), 200)
    except (ValueError, TypeError, KeyError) as error:
        return _build_json_response({"error": f"{error!r}"}, 400)
    except Exception as error:
        log.exception("/local-cloud/%s", path)
        return _build_json_response({"error": f"{error!r}"}, 500)


def _read_token(request: Request) -> str:
    """Return the bearer token, or the password of a client that supports only Basic authentication."""
    sent = request.authorization
    return (sent.token or sent.password or "") if sent is not None else ""


def _build_json_response(value: Any, status: int) -> Response:
    return Response(json.dumps(value, indent=1, default=str) + "\n", status, content_type="application/json")


@action("GET", "health")
def _get_health(_: Any) -> Any:
    return {"status": "ok"}


@action("GET", "problems")
def _list_problems(_: Any) -> Any:
    return problems.list_problems()


@action("POST", "reset")
def _reset(_: Any) -> Any:
    from moto.core.base_backend import BackendDict  # slow to import

    BackendDict.reset()
    calls.clear_counts()
    return {}


@action("GET", "inventory")
def _list_leftovers(_: Any) -> Any:
    durations.complete_due_transitions()
    return [asdict(leftover) for leftover in inventory.list_leftovers()]


@action("PUT", "inventory")
def _accept_leftovers(_: Any) -> Any:
    durations.complete_due_transitions()
    inventory.accept_current_resources()
    return []


@action("POST", "capacity-reservations")
def _create_capacity_reservation(body: Any) -> Any:
    return {"id": capacity_reservations.seed_reservation(**body)}


@action("POST", "prerequisites")
def _create_prerequisites(body: Any) -> Any:
    return prerequisites.create_prerequisites(body["region"], body["values"])


@action("GET", "faults")
def _list_faults(_: Any) -> Any:
    return [asdict(fault) for fault in faults.list_active_faults()]


@action("POST", "faults")
def _add_fault(body: Any) -> Any:
    field_names = {field.name for field in fields(faults.Fault)} - {"id"}
    if unknown := set(body) - field_names:
        raise ValueError(f"unknown fields of a fault: {', '.join(sorted(unknown))}. Known: {', '.join(sorted(field_names))}")
    return asdict(faults.add_fault(faults.Fault(**body)))


@action("DELETE", "faults")
def _clear_faults(_: Any) -> Any:
    faults.clear_faults()
    return {}


@action("GET", "delays")
def _get_delays(_: Any) -> Any:
    table = {kind: {"seconds": value.seconds, "source": value.source} for kind, value in durations.DURATIONS.items()}
    return {"factor": durations.get_factor(), "durations": table}


@action("PUT", "delays")
def _set_delays(body: Any) -> Any:
    durations.set_factor(float(body["factor"]), body.get("only", ()))
    return {"factor": durations.get_factor()}


@action("GET", "account")
def _get_account(_: Any) -> Any:
    return {"kind": "new" if quotas.is_new_account() else "established"}


@action("GET", "clock")
def _get_clock(_: Any) -> Any:
    return {"now": clock.now().isoformat()}


@action("POST", "clock")
def _advance_clock(body: Any) -> Any:
    return {"now": clock.advance(timedelta(seconds=float(body["seconds"]))).isoformat()}


@action("GET", "calls")
def _get_call_counts(_: Any) -> Any:
    counts = {
        f"{service}.{operation}": {"read": calls.is_read(operation), **asdict(count)}
        for (service, operation), count in calls.get_counts().items()
    }
    return {"reads": sum(calls.count_reads().values()), "writes": sum(calls.count_writes().values()), "operations": counts}


@action("DELETE", "calls")
def _clear_calls(_: Any) -> Any:
    calls.clear_counts()
    return {}
