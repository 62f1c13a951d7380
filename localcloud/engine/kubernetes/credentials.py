"""API server credentials from the kubeconfig, a file, or a credential plugin such as `aws eks get-token`."""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from localcloud.engine.kubernetes.kubeconfig import Access, Exec

PATIENCE_SECONDS = 60.0
EARLY_SECONDS = 30.0
"""Tokens are renewed this long before they expire, so they do not expire during a request."""
OWN_VARIABLES = ("AWS_", "HOME", "PATH", "KUBE")
"""Prefixes of environment variables on which a credential may depend. These variables are part of the cache key."""


class NoCredential(Exception):
    """The credential plugin failed. The message contains the output of the credential plugin."""


@dataclass(frozen=True)
class Token:
    """Bearer token and its expiry time in seconds since the epoch."""

    value: str
    expires: float | None

    def is_fresh(self) -> bool:
        return self.expires is None or time.time() < self.expires - EARLY_SECONDS


class Credentials:
    """Authorization headers for one cluster. Clusters with equal configurations share the tokens from credential
    plugins."""

    _tokens: dict[object, Token] = {}
    _locks: dict[object, threading.Lock] = {}
    _guard = threading.Lock()

    def __init__(self, access: Access, environment: Mapping[str, str]) -> None:
        self._access = access
        self._environment = environment

    def build_header(self) -> str | None:
        """Return the Authorization header, or None if only a client certificate is used."""
        if self._access.basic:
            return "Basic " + base64.b64encode(":".join(self._access.basic).encode()).decode()
        if self._access.token_file:
            return "Bearer " + Path(self._access.token_file).read_text().strip()
        if self._access.token:
            return f"Bearer {self._access.token}"
        return f"Bearer {self._get_plugin_token(self._access.exec)}" if self._access.exec else None

    def discard_token(self) -> None:
        """Forget the token that the API server rejected. Like client-go, get a new token for the next request.

        https://github.com/kubernetes/client-go/blob/v0.35.0/plugin/pkg/client/auth/exec/exec.go (roundTripper.RoundTrip)
        """
        if self._access.exec:
            self._tokens.pop(self._build_cache_key(self._access.exec), None)

    def _build_cache_key(self, program: Exec) -> object:
        settings = sorted((name, value) for name, value in self._environment.items() if name.startswith(OWN_VARIABLES))
        return (program, tuple(settings))

    def _get_plugin_token(self, program: Exec) -> str:
        key = self._build_cache_key(program)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            token = self._tokens.get(key)
            if token is None or not token.is_fresh():
                token = self._tokens[key] = _run_exec_plugin(program, self._environment)
            return token.value


def _run_exec_plugin(program: Exec, environment: Mapping[str, str]) -> Token:
    request = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        ran = subprocess.run(
            [program.command, *program.args],
            env={**environment, **dict(program.env), "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCredential(f"getting credentials: exec: {error}") from error
    if ran.returncode:
        words = ran.stderr.strip() or ran.stdout.strip()
        raise NoCredential(
            f"getting credentials: exec: executable {program.command} failed with exit code {ran.returncode}: {words}"
        )
    try:
        status = json.loads(ran.stdout)["status"]
        expires = status.get("expirationTimestamp")
        return Token(
            str(status["token"]), datetime.fromisoformat(expires.replace("Z", "+00:00")).timestamp() if expires else None
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoCredential(f"getting credentials: {program.command} printed no ExecCredential with a token") from error
