"""Kubeconfigs, and what is wrong with one as a sentence."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.config.messages import did_you_mean, one_of, shown

RETRIES: Final = 2
TIMEOUT: Final = (5, 30)
"""Seconds to connect and to wait for an answer."""


class Unusable(Exception):
    """No cluster can be asked by way of the kubeconfig; the message is for the user."""


class NoAnswer(Exception):
    """Nobody answers at the server; the message says why."""


@dataclass(frozen=True)
class ApiConnection:
    """One context of a kubeconfig: a cluster, and who one is there."""

    context: str
    namespace: str | None
    server: str
    client: Any
    """Of the `kubernetes` package."""

    @property
    def has_credentials(self) -> bool:
        """A token or a certificate of one's own; whether it is good, only the cluster knows."""
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
    ) -> Any:
        """The server's answer, as urllib3 has it; a stream may be silent for as long as it wants.

        Raises NoAnswer, and `kubernetes.client.ApiException` where the server refuses.
        """
        import urllib3.exceptions

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
                _request_timeout=(TIMEOUT[0], None) if stream else TIMEOUT,
            )
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswer(_cause(error)) from None


def load(kubeconfig: Path | None, context: str | None) -> ApiConnection:
    """The context of that name, or the current one. Raises Unusable."""
    import kubernetes.client  # half a second that `--help` does not wait for
    import kubernetes.config

    name, namespace = _context(kubeconfig, context)
    configuration = kubernetes.client.Configuration()
    with _complaints() as said:
        kubernetes.config.load_kube_config(files(kubeconfig), name, configuration, persist_config=False)
    if said:
        raise Unusable(f"the credentials of context {shown(name)} cannot be had: {said[0]}")
    if not configuration.host.startswith(("https://", "http://")):
        address = shown(configuration.host) if configuration.host else "nothing"
        raise Unusable(f"the server of context {shown(name)} is {address}, no address like https://10.0.0.1:6443; write its own")
    configuration.retries = RETRIES
    return ApiConnection(name, namespace, configuration.host, kubernetes.client.ApiClient(configuration))


def files(kubeconfig: Path | None) -> str:
    """As kubectl finds them: one path, or several with the separator of PATH between them."""
    return str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _context(kubeconfig: Path | None, context: str | None) -> tuple[str, str | None]:
    """The context's name and namespace."""
    import kubernetes.config
    import yaml

    where = files(kubeconfig)
    if kubeconfig and not kubeconfig.exists():
        raise Unusable(f"there is no kubeconfig {kubeconfig}")
    try:
        contexts, current = kubernetes.config.list_kube_config_contexts(where)
    except (kubernetes.config.ConfigException, OSError, TypeError, yaml.YAMLError) as error:
        if not any(Path(file).exists() for file in where.split(os.pathsep)):
            way_out = "name one with --kubeconfig or KUBECONFIG, or write one: scripts/cluster kubeconfig -s STACK"
            raise Unusable(f"there is no kubeconfig {where}; {way_out}") from None
        if context is None or "current-context" not in str(error):
            reason = str(error).splitlines()[0]
            raise Unusable(f"{where} is no kubeconfig that can be used: {reason}") from None
        contexts, current = [], None
    names = [one["name"] for one in contexts]
    if context is not None and context not in names:
        raise Unusable(
            f"{where} has no context {shown(context)}{did_you_mean(context, names)}; there is {one_of(names)}",
        )
    chosen = next((one for one in contexts if one["name"] == context), current)
    return chosen["name"], chosen["context"].get("namespace")


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the client logs while it loads credentials: a program that gives no token is not an exception to it."""
    import kubernetes.config

    said: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(" ".join(record.getMessage().split()))

    handler, root = Collect(logging.ERROR), logging.getLogger()
    others = root.handlers[:]
    root.handlers[:] = [handler]
    try:
        yield said
    except (kubernetes.config.ConfigException, OSError) as error:
        said.append(" ".join(str(error).split()))
    finally:
        root.handlers[:] = others


def _cause(error: BaseException) -> str:
    """The last words of a chain of wrapped errors."""
    reason: Any = getattr(error, "reason", None) or error
    text = str(getattr(reason, "args", [reason])[-1])
    for known, words in (
        ("certificate has expired", "its certificate has expired: `kubeadm certs renew all` renews those of kubeadm"),
        ("CERTIFICATE_VERIFY_FAILED", "its certificate is not the one that the kubeconfig names"),
        ("Connection refused", "connection refused"),
        ("Name or service not known", "no such host"),
        ("Temporary failure in name resolution", "no such host"),
        ("timed out", "no answer in time"),
        ("No route to host", "no route to it"),
        ("Network is unreachable", "no route to it"),
    ):
        if known in text:
            return words
    return text
