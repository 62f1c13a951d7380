"""Load kubeconfigs and report problems with them."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.config.messages import did_you_mean, one_of, shown

RETRIES: Final = 2
TIMEOUT: Final = (5, 30)
"""Connect timeout and read timeout in seconds."""
READY_TIMEOUT: Final = (5, 5)
"""Timeouts for `/readyz`, whose etcd check gives up after 2 seconds."""


class Unusable(Exception):
    """The kubeconfig cannot be used. The message tells users why."""


class NoAnswer(Exception):
    """The API server does not respond. The message gives the reason."""


@dataclass(frozen=True)
class ApiConnection:
    """Connection to a cluster as the user of a kubeconfig context."""

    context: str
    namespace: str | None
    server: str
    client: Any
    """ApiClient of the `kubernetes` package."""

    @property
    def has_credentials(self) -> bool:
        """True if there is a token or client certificate. Only the API server can tell whether the credential is
        valid."""
        configuration = self.client.configuration
        return bool(configuration.api_key or configuration.cert_file)

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        stream: bool = False,
        timeout: tuple[float, float] | None = None,
    ) -> Any:
        """Return the server's response (urllib3). The default for `timeout` is TIMEOUT. Streams have no read timeout.

        Raises NoAnswer if there is no response, and `kubernetes.client.ApiException` for error responses.
        """
        import urllib3.exceptions

        connect, read = timeout or TIMEOUT
        try:
            return self.client.call_api(
                f"/{path}",
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=(connect, None if stream else read),
            )
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswer(_cause(error)) from None

    def websocket(self, path: str, query: Sequence[tuple[str, str]]) -> Any:
        """Open a WebSocket (websocket-client) of a subresource such as `exec`.

        Raises NoAnswer if there is no response, and `kubernetes.client.ApiException` for error responses.
        """
        import websocket
        from kubernetes.client.exceptions import ApiException
        from kubernetes.stream import ws_client

        headers: dict[str, str] = {}
        self.client.update_params_for_auth(headers, [], ["BearerToken"])
        url = ws_client.get_websocket_url(f"{self.server}/{path}", query)
        try:
            return ws_client.create_websocket(self.client.configuration, url, headers)
        except websocket.WebSocketBadStatusException as refused:
            error = ApiException(status=refused.status_code, reason=str(refused))
            error.body = refused.resp_body
            raise error from None
        except (OSError, websocket.WebSocketException) as lost:
            raise NoAnswer(_cause(lost)) from None

    def unready(self) -> list[str]:
        """Return the failing readiness checks of the API server, such as `etcd`. Raises NoAnswer.

        https://kubernetes.io/docs/reference/using-api/health-checks/
        """
        from kubernetes.client.exceptions import ApiException

        try:
            self.call("GET", "readyz", {"verbose": "true"}, timeout=READY_TIMEOUT)
        except ApiException as error:
            lines = str(error.body or "").splitlines() if error.status == 500 else []
            return [line.removeprefix("[-]").split()[0] for line in lines if line.startswith("[-]")]
        return []


def load(kubeconfig: Path | None, context: str | None) -> ApiConnection:
    """Connect with the named context, or with the current context if `context` is None. Raises Unusable."""
    import kubernetes.client  # importing it at the top would slow down `--help` by half a second
    import kubernetes.config
    import urllib3

    name, namespace = _context(kubeconfig, context)
    configuration = kubernetes.client.Configuration()
    with _collect_errors() as errors:
        kubernetes.config.load_kube_config(files(kubeconfig), name, configuration, persist_config=False)
    if errors:
        raise Unusable(f"the credentials of context {shown(name)} could not be loaded: {errors[0]}")
    if not configuration.host.startswith(("https://", "http://")):
        address = shown(configuration.host) if configuration.host else "nothing"
        raise Unusable(f"the server of context {shown(name)} is {address}. Set it to an address such as https://10.0.0.1:6443")
    # Do not repeat reads: a server that does not answer one request in time would not answer a second request either.
    configuration.retries = urllib3.Retry(RETRIES, read=0)
    return ApiConnection(name, namespace, configuration.host, kubernetes.client.ApiClient(configuration))


def files(kubeconfig: Path | None) -> str:
    """Return the kubeconfig files that kubectl would use: one path, or several separated by colons."""
    return str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _context(kubeconfig: Path | None, context: str | None) -> tuple[str, str | None]:
    """Return the context's name and namespace."""
    import kubernetes.config  # slow to import
    import yaml

    where = files(kubeconfig)
    if kubeconfig and not kubeconfig.exists():
        raise Unusable(f"the kubeconfig {kubeconfig} does not exist")
    try:
        contexts, current = kubernetes.config.list_kube_config_contexts(where)
    except (kubernetes.config.ConfigException, OSError, TypeError, yaml.YAMLError) as error:
        if not any(Path(file).exists() for file in where.split(os.pathsep)):
            fix = "Set --kubeconfig or KUBECONFIG, or create it: scripts/cluster kubeconfig -s STACK"
            raise Unusable(f"the kubeconfig {where} does not exist. {fix}") from None
        if context is None or "current-context" not in str(error):
            reason = str(error).splitlines()[0]
            raise Unusable(f"{where} is not a usable kubeconfig: {reason}") from None
        contexts, current = [], None
    names = [one["name"] for one in contexts]
    if context is not None and context not in names:
        raise Unusable(
            f"{where} has no context {shown(context)}{did_you_mean(context, names) or '.'} It has {one_of(names)}",
        )
    chosen = next((one for one in contexts if one["name"] == context), current)
    return chosen["name"], chosen["context"].get("namespace")


@contextmanager
def _collect_errors() -> Iterator[list[str]]:
    """Collect errors that the client logs while it loads credentials. If a credential plugin fails, the client only
    logs the error and does not raise it."""
    import kubernetes.config

    errors: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors.append(" ".join(record.getMessage().split()))

    handler, root = Collect(logging.ERROR), logging.getLogger()
    others = root.handlers[:]
    root.handlers[:] = [handler]
    try:
        yield errors
    except (kubernetes.config.ConfigException, OSError) as error:
        errors.append(" ".join(str(error).split()))
    finally:
        root.handlers[:] = others


def _cause(error: BaseException) -> str:
    """Return the innermost message of a chain of wrapped errors, or a plain explanation if the message is known."""
    reason: Any = getattr(error, "reason", None) or error
    text = str(getattr(reason, "args", [reason])[-1])
    for known, meaning in (
        ("certificate has expired", "its certificate has expired; on kubeadm clusters run `kubeadm certs renew all`"),
        ("CERTIFICATE_VERIFY_FAILED", "its certificate does not match the certificate authority in the kubeconfig"),
        ("Connection refused", "connection refused"),
        ("Name or service not known", "no such host"),
        ("Temporary failure in name resolution", "no such host"),
        ("timed out", "timeout"),
        ("No route to host", "no route to it"),
        ("Network is unreachable", "no route to it"),
    ):
        if known in text:
            return meaning
    return text
