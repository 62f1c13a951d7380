"""Load kubeconfigs and report problems with them."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from infra.config.messages import format_value
from infra.kubernetes import kubeconfig_files
from infra.kubernetes.credentials import add_token_from_file, find_credential_problem, is_valid_header_value, redact_secrets
from infra.kubernetes.kubeconfig_files import Unusable as Unusable

RETRIES: Final = 2
TIMEOUT: Final = (5, 30)
"""Connect timeout and read timeout in seconds."""
READY_TIMEOUT: Final = (5, 5)
"""Timeouts for `/readyz`, whose etcd check gives up after 2 seconds."""


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
        """True if the user has a token or client certificate. Only the API server can tell whether the credential is
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
            raise NoAnswer(_find_root_cause(error)) from None

    def open_websocket(self, path: str, query: Sequence[tuple[str, str]]) -> Any:
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
            raise NoAnswer(_find_root_cause(lost)) from None

    def list_failing_checks(self) -> list[str]:
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


def load_connection(kubeconfig: Path | None, context: str | None) -> ApiConnection:
    """Connect with the named context, or with the current context if `context` is None. Raises Unusable."""
    import kubernetes.client  # importing it at the top would slow down `--help` by half a second
    import kubernetes.config
    import urllib3

    merged = kubeconfig_files.read_kubeconfigs(kubeconfig)
    name = merged.resolve_context(context)
    content = merged.extract_context(name)
    cluster: dict[str, Any] = content["clusters"][0]["cluster"]
    user: dict[str, Any] = content["users"][0]["user"] if content["users"] else {}
    if error := find_credential_problem(cluster, user):
        raise Unusable(f"the credentials of context {format_value(name)} could not be loaded: {error}")
    _check_server(name, cluster.get("server"))
    configuration = kubernetes.client.Configuration()
    with _collect_errors() as errors:
        if user:
            content["users"][0]["user"] = add_token_from_file(user)
        kubernetes.config.load_kube_config_from_dict(content, name, configuration, persist_config=False)
    if not errors and not is_valid_header_value(configuration.api_key.get("BearerToken", "")):
        errors.append("its token has a character that an HTTP header cannot contain, such as a line break")
    if errors:
        raise Unusable(f"the credentials of context {format_value(name)} could not be loaded: {redact_secrets(errors[0], user)}")
    _set_proxy(name, cluster.get("proxy-url"), configuration)
    namespace = merged.entries["contexts"][name].body.get("namespace")
    # Do not repeat reads: a server that does not answer one request in time would not answer a second request either.
    configuration.retries = urllib3.Retry(RETRIES, read=0)
    return ApiConnection(name, namespace, configuration.host, kubernetes.client.ApiClient(configuration))


def join_kubeconfig_paths(kubeconfig: Path | None) -> str:
    """Return the kubeconfig files that kubectl would use: one path, or several separated by colons."""
    return os.pathsep.join(map(str, kubeconfig_files.list_kubeconfig_paths(kubeconfig)))


def list_contexts(kubeconfig: Path | None) -> tuple[list[str], str]:
    """Return the names of all contexts, and the current context or an empty string. Raises Unusable."""
    merged = kubeconfig_files.read_kubeconfigs(kubeconfig)
    names = list(merged.entries["contexts"])
    return names, merged.current if merged.current in names else ""


def find_context_file(kubeconfig: Path | None, context: str) -> str:
    """Return the file that defines a context with its cluster and user, for programs that read only one file.

    Raises Unusable if they are in different files.
    """
    paths = kubeconfig_files.list_kubeconfig_paths(kubeconfig)
    if len(paths) == 1:
        return str(paths[0])
    merged = kubeconfig_files.read_kubeconfigs(kubeconfig)
    defining = {str(entry.file) for _, entry in merged.find_parts(merged.resolve_context(context)).values()}
    if len(defining) > 1:
        fix = "Write them into one file: kubectl config view --flatten --minify"
        raise Unusable(f"context {format_value(context)} uses a cluster or user of another file in KUBECONFIG. {fix}")
    return defining.pop()


def _check_server(context: str, server: object) -> None:
    """Raise Unusable if the address of the API server is unusable or contains a password."""
    if "@" in str(server):
        raise Unusable(f"the server of context {format_value(context)} contains credentials. Move them to its user")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        address = format_value(server) if server else "nothing"
        raise Unusable(
            f"the server of context {format_value(context)} is {address}. Set it to an address such as https://10.0.0.1:6443"
        )


def _set_proxy(context: str, proxy: object, configuration: Any) -> None:
    """Send requests through the cluster's proxy, if it has one, in place of the proxy of the environment."""
    import urllib3

    if not proxy:
        return
    try:
        parts = urlsplit(str(proxy))
        _ = parts.port
    except ValueError:
        raise Unusable(f"the proxy-url of the cluster of context {format_value(context)} is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        fix = "Use a proxy with http:// or https://"
        raise Unusable(
            f"the proxy-url of the cluster of context {format_value(context)} has no HTTP proxy ({parts.scheme}). {fix}"
        )
    configuration.proxy, configuration.no_proxy = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", None
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=login)


@contextmanager
def _collect_errors() -> Iterator[list[str]]:
    """Collect errors that the client logs or raises while it loads credentials. If a credential plugin fails, the client
    only logs the error and does not raise it."""
    errors: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors.append(" ".join(record.getMessage().split()))

    handler, root = Collect(logging.ERROR), logging.getLogger()
    previous = root.handlers[:]
    root.handlers[:] = [handler]
    try:
        yield errors
    except Exception as error:  # the package can raise any exception for invalid values
        errors.append(" ".join(str(error).split()) or type(error).__name__)
    finally:
        root.handlers[:] = previous


def _find_root_cause(error: BaseException) -> str:
    """Return the innermost message of a chain of wrapped errors, or a plain explanation if the message is known."""
    reason: Any = getattr(error, "reason", None) or error
    text = str(getattr(reason, "args", [reason])[-1])
    for phrase, meaning in (
        ("certificate has expired", "its certificate has expired; on kubeadm clusters run `kubeadm certs renew all`"),
        ("CERTIFICATE_VERIFY_FAILED", "its certificate does not match the certificate authority in the kubeconfig"),
        ("Connection refused", "connection refused"),
        ("Name or service not known", "no such host"),
        ("Temporary failure in name resolution", "no such host"),
        ("timed out", "timeout"),
        ("No route to host", "no route to it"),
        ("Network is unreachable", "no route to it"),
    ):
        if phrase in text:
            return meaning
    return text
