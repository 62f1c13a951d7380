"""Registry of the control API's requests. Modules register their own handlers, so this module imports none of them."""

import re
from collections.abc import Callable
from typing import Any

Action = Callable[..., Any]

_actions: dict[tuple[str, str], Action] = {}


def action(method: str, path: str) -> Callable[[Action], Action]:
    """Register the decorated function as the handler of `method /local-cloud/path`.

    The function receives the request's parsed JSON body (or None) and returns a value that can be serialized as JSON. A
    path segment in braces, as in `kubernetes/{cluster}`, matches any text and is passed as a keyword argument. The
    function runs with the gateway's lock held. A ValueError becomes a response with status 400 and the error's message.
    """

    def register_action(function: Action) -> Action:
        _actions[(method, path)] = function
        return function

    return register_action


def list_requests() -> list[str]:
    """Return all registered requests in the form `METHOD path`."""
    return [f"{method} {path}" for method, path in sorted(_actions)]


def find_action(method: str, path: str) -> tuple[Action | None, dict[str, str]]:
    for (known_method, pattern), function in _actions.items():
        matched = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern), path) if known_method == method else None
        if matched is not None:
            return function, matched.groupdict()
    return None, {}
