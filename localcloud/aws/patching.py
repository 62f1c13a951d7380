"""Registration of operations that extensions add to or replace in moto.

    @operation("efs", "UpdateFileSystem")
    def update_file_system(call: Call) -> dict[str, Any]:
        file_system = call.backend.describe_file_system(call.params["FileSystemId"])
        ...
        return {"FileSystemId": ..., ...}

Use boto3's service and operation names ("efs", "service-quotas"; "CreateFileSystem"). Requests are parsed with
botocore's model before moto's URL patterns apply, so an operation that moto lacks needs no URL. `call.params` is the
request and the returned dict is the response, both in boto3's format (None for an empty response). Reject calls with
`raise AwsError(code, message)`. Exceptions from moto's backends are also returned as AWS errors. To extend a moto
operation, call `call.moto()`, which returns moto's response as a dict.

Keep state on moto's backend objects (`get_state(call.backend, Placement)`), so that resets drop it and the inventory
sees it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from localcloud.aws.call import Call

Handler = Callable[[Call], dict[str, Any] | None]
State = TypeVar("State")

Guard = Callable[[Call], None]

_guards: dict[str, list[Guard]] = {}
_operations: dict[tuple[str, str], Handler] = {}
_reset_actions: list[Callable[[], None]] = []


def operation(service: str, name: str) -> Callable[[Handler], Handler]:
    """Register the decorated function as the handler of an operation. Registering an operation twice is an error."""

    def register_handler(handler: Handler) -> Handler:
        registered = _operations.get((service, name))
        if registered is not None and registered.__qualname__ != handler.__qualname__:
            raise ValueError(f"{service}.{name} is extended twice: {registered.__qualname__} and {handler.__qualname__}")
        _operations[(service, name)] = handler
        return handler

    return register_handler


def find_handler(service: str, name: str) -> Handler | None:
    return _operations.get((service, name))


def guard(service: str) -> Callable[[Guard], Guard]:
    """Call the decorated function before every operation of a service. It can reject calls by raising AwsError."""

    def register_guard(check: Guard) -> Guard:
        _guards.setdefault(service, []).append(check)
        return check

    return register_guard


def list_guards(service: str) -> list[Guard]:
    return _guards.get(service, [])


def list_extended_operations() -> list[tuple[str, str]]:
    """Return the operations added to or replaced in moto, as (service, operation)."""
    return sorted(_operations)


def get_state(backend: Any, kind: type[State]) -> State:
    """Return the state that an extension keeps on a moto backend (one account and region). The state is created on first use."""
    attribute = f"local_cloud_{kind.__module__.rsplit('.', 1)[-1]}_{kind.__name__}"
    if attribute not in vars(backend):
        setattr(backend, attribute, kind())
    state: State = getattr(backend, attribute)
    return state


def on_reset(action: Callable[[], None]) -> Callable[[], None]:
    """Call the function on every reset: at the start and end of `mock_aws`, and when the server is reset."""
    _reset_actions.append(action)
    return action


def run_reset_actions() -> None:
    for action in _reset_actions:
        action()
