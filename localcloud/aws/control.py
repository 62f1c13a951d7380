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


def answer(request: Request, offer: Offer) -> Response:
    path = request.path.removeprefix("/local-cloud/").rstrip("/")
    if not path.startswith(offer.paths):
        return _json({"error": "this address does not offer the request"}, 404)
    if not hmac.compare_digest(_token_of(request).encode(), offer.token.encode()):
        return _json({"error": "the header Authorization must be: Bearer <secret access key of the local cloud>"}, 401)
    if request.get_data() and request.mimetype != "application/json":
        return _json({"error": "the header Content-Type must be: application/json"}, 415)
    function, variables = control_actions.find(request.method, path)
    if function is None:
        known_requests = ", ".join(control_actions.known())
        return _json({"error": f"no {request.method} /local-cloud/{path}. Known requests: {known_requests}"}, 404)
    try:
        body = json.loads(request.get_data() or b"null")
        with gateway.LOCK:
            return _json(function(body, **variables), 200)
    except (ValueError, TypeError, KeyError) as error:
        return _json({"error": f"{error!r}"}, 400)
    except Exception as error:
        log.exception("/local-cloud/%s", path)
        return _json({"error": f"{error!r}"}, 500)


def _token_of(request: Request) -> str:
    """Return the bearer token, or the password of a client that supports only Basic authentication."""
    sent = request.authorization
    return (sent.token or sent.password or "") if sent is not None else ""


def _json(value: Any, status: int) -> Response:
    return Response(json.dumps(value, indent=1, default=str) + "\n", status, content_type="application/json")


@action("GET", "health")
def _health(_: Any) -> Any:
    return {"status": "ok"}


@action("GET", "problems")
def _problems(_: Any) -> Any:
    return problems.found()


@action("POST", "reset")
def _reset(_: Any) -> Any:
    from moto.core.base_backend import BackendDict  # slow to import

    BackendDict.reset()
    calls.clear()
    return {}


@action("GET", "inventory")
def _inventory(_: Any) -> Any:
    durations.settle()
    return [asdict(leftover) for leftover in inventory.leftovers()]


@action("PUT", "inventory")
def _accept(_: Any) -> Any:
    durations.settle()
    inventory.accept()
    return []


@action("POST", "capacity-reservations")
def _reserve(body: Any) -> Any:
    return {"id": capacity_reservations.seed(**body)}


@action("POST", "prerequisites")
def _prerequisites(body: Any) -> Any:
    return prerequisites.make(body["region"], body["values"])


@action("GET", "faults")
def _faults(_: Any) -> Any:
    return [asdict(fault) for fault in faults.pending()]


@action("POST", "faults")
def _add_fault(body: Any) -> Any:
    field_names = {field.name for field in fields(faults.Fault)} - {"id"}
    if unknown := set(body) - field_names:
        raise ValueError(f"unknown fields of a fault: {', '.join(sorted(unknown))}. Known: {', '.join(sorted(field_names))}")
    return asdict(faults.add(faults.Fault(**body)))


@action("DELETE", "faults")
def _clear_faults(_: Any) -> Any:
    faults.clear()
    return {}


@action("GET", "delays")
def _delays(_: Any) -> Any:
    table = {kind: {"seconds": value.seconds, "source": value.source} for kind, value in durations.DURATIONS.items()}
    return {"factor": durations.factor(), "durations": table}


@action("PUT", "delays")
def _set_delays(body: Any) -> Any:
    durations.set_factor(float(body["factor"]), body.get("only", ()))
    return {"factor": durations.factor()}


@action("GET", "account")
def _account(_: Any) -> Any:
    return {"kind": "new" if quotas.is_new_account() else "established"}


@action("GET", "clock")
def _clock(_: Any) -> Any:
    return {"now": clock.now().isoformat()}


@action("POST", "clock")
def _advance_clock(body: Any) -> Any:
    return {"now": clock.advance(timedelta(seconds=float(body["seconds"]))).isoformat()}


@action("GET", "calls")
def _calls(_: Any) -> Any:
    counts = {
        f"{service}.{operation}": {"read": calls.is_read(operation), **asdict(count)}
        for (service, operation), count in calls.counts().items()
    }
    return {"reads": sum(calls.reads().values()), "writes": sum(calls.writes().values()), "operations": counts}


@action("DELETE", "calls")
def _clear_calls(_: Any) -> Any:
    calls.clear()
    return {}
