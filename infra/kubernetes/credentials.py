"""Check the credentials in a kubeconfig before the `kubernetes` package uses them, and keep them out of messages."""

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from infra.kubernetes.kubeconfig_files import PATHS, Body

_TEXTS: Final = ("token", "username", "password", "tls-server-name")
_PUBLIC: Final = ("apiVersion", "command", "installHint", "interactiveMode", "name", "username")
"""Keys whose values may be shown."""
_SECRET_OPTION: Final = re.compile(r"-.*(?:secret|token|passw|key|credential)", re.IGNORECASE)
SHORTEST_SECRET: Final = 4
"""Minimum length of a value to hide: shorter values are part of ordinary words."""


def find_credential_problem(cluster: Body, user: Body) -> str | None:
    """Return what is wrong with the structure of a cluster's and a user's credentials, without their values."""
    problems = (
        *_find_file_problems({**user, **cluster}),
        *_find_text_problems({**user, **cluster}),
        *_find_plugin_problems(user),
        *_find_provider_problems(user),
    )
    return problems[0] if problems else None


def _find_file_problems(body: Body) -> Iterator[str]:
    for key in PATHS:
        data = body.get(f"{key}-data")
        if data:
            if not _is_base64(data):
                yield f"{key}-data is not base64"
        elif body.get(key) and not os.access(str(body[key]), os.R_OK):
            yield f"{key} is not the path of a readable file"


def _is_base64(value: object) -> bool:
    try:
        base64.b64decode("".join(str(value).split()), validate=True)
    except ValueError:
        return False
    return True


def _find_text_problems(user: Body) -> Iterator[str]:
    for key in _TEXTS:
        if not isinstance(user.get(key) or "", str):
            yield f"{key} is not text. Write it in quotes"


def _find_plugin_problems(user: Body) -> Iterator[str]:
    if not (plugin := user.get("exec")):
        return
    if not isinstance(plugin, Mapping):
        yield "exec is not a mapping"
        return
    for key in ("command", "apiVersion"):
        if not isinstance(plugin.get(key), str):
            yield f"exec.{key} is missing or is not text"
    arguments, variables = plugin.get("args") or [], plugin.get("env") or []
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        yield "exec.args is not a list of strings"
    if not isinstance(variables, list) or not all(map(_is_environment_variable, variables)):
        yield "exec.env is not a list with the name and the value of variables"


def _is_environment_variable(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("name", "value"))


def _find_provider_problems(user: Body) -> Iterator[str]:
    if not (provider := user.get("auth-provider")):
        return
    config = provider.get("config") or {} if isinstance(provider, Mapping) else None
    if not isinstance(provider, Mapping) or not isinstance(provider.get("name"), str) or not isinstance(config, Mapping):
        yield "auth-provider has no name or no valid config"
    elif not all(isinstance(value, str) for value in config.values()):
        yield "auth-provider.config has a value that is not text. Write the value in quotes"
    elif provider["name"] == "oidc" and not config.get("id-token"):
        yield "auth-provider oidc has no id-token. Log in with the program that wrote the kubeconfig"


def add_token_from_file(user: Body) -> dict[str, Any]:
    """Return the user with the content of its token file, which takes precedence over its token, as in kubectl. Raises
    OSError or ValueError if the file cannot be read."""
    if not user.get("tokenFile"):
        return dict(user)
    token = Path(str(user["tokenFile"])).read_text(encoding="utf-8").strip()
    return {**{key: value for key, value in user.items() if key != "tokenFile"}, "token": token}


def is_valid_header_value(token: str) -> bool:
    """Return whether an HTTP header can contain the token: the error message of `http.client` would quote it."""
    return token.isascii() and token.isprintable()


def redact_secrets(text: str, user: Body) -> str:
    """Replace all values of a user that may be secrets in a message."""
    for secret in sorted(_iterate_secrets(user), key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text


def _iterate_secrets(value: object, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _iterate_option_secrets(inner) if name == "args" else _iterate_secrets(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_secrets(inner, key)
    elif key not in _PUBLIC:
        yield from (str(value), *str(value).split())


def _iterate_option_secrets(arguments: object) -> Iterator[str]:
    """Yield the values of options such as `--token=VALUE` and `--token VALUE`."""
    words = list(map(str, arguments)) if isinstance(arguments, list) else []
    for before, word in zip(["", *words], words, strict=False):
        option, is_set, value = word.partition("=")
        if is_set and _SECRET_OPTION.match(option):
            yield value
        elif _SECRET_OPTION.match(before) and "=" not in before and not word.startswith("-"):
            yield word
