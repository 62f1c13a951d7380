"""The part that runs the webhook and the agent of EKS Pod Identity. As on EKS, the webhook always runs; the agent runs
while its add-on is installed."""

import base64
import logging
import ssl
from collections.abc import Callable
from typing import Any

from localcloud.aws import gateway
from localcloud.aws.events import Event
from localcloud.kubernetes.addresses import POD_IDENTITY_ADDRESS
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.pod_identity import credentials, mutation, servers
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused, Pod

log = logging.getLogger(__name__)

ADDON = "eks-pod-identity-agent"
AGENT_PORT = 80
WEBHOOK_ADDRESS, WEBHOOK_PORT = "127.0.0.1", 23443
"""Address of the webhook in the cluster's own network namespace. As on EKS, only the API server can reach it."""
NAME = "pod-identity-webhook"
_SERVICE_ACCOUNT = "system:serviceaccount:"
Json = dict[str, Any]


class PodIdentity(Part):
    _url = ""
    _stop_webhook: Callable[[], None] | None = None
    _stop_agent: Callable[[], None] | None = None

    def on_network_created(self) -> None:
        listener = self.cluster.listen(WEBHOOK_ADDRESS, WEBHOOK_PORT)
        address, port = listener.getsockname()
        certificate = self.cluster.pki.issue(NAME, addresses=(address,))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.file, certificate.key)
        self._url = f"https://{address}:{port}{servers.MUTATE_PATH}"
        self._stop_webhook = servers.serve_webhook(listener, context, self._mutate_pod)

    def on_api_server_ready(self) -> None:
        authority = self.cluster.pki.certificate.file.read_bytes()
        self.cluster.api.apply(build_webhook_config(self._url, authority))

    def on_event(self, event: Event) -> None:
        if event.kind != "add-on" or event.name != f"{self.cluster.name}/{ADDON}":
            return
        if event.action == "gone":
            self._shut_down_agent()
        elif self._stop_agent is None:
            listener = self.cluster.listen(str(POD_IDENTITY_ADDRESS), AGENT_PORT)
            self._stop_agent = servers.serve_agent(listener, self._assume_role)

    def stop(self) -> None:
        self._shut_down_agent()
        if self._stop_webhook is not None:
            self._stop_webhook()

    def _shut_down_agent(self) -> None:
        if self._stop_agent is not None:
            self._stop_agent()
            self._stop_agent = None

    def _mutate_pod(self, pod: Json) -> list[Json]:
        cluster = self.cluster
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
        with gateway.LOCK:
            association = credentials.find_association(cluster.account, cluster.region, cluster.name, namespace, account)
        return mutation.build_patch(pod, cluster.region, cluster.aws_url) if association else []

    def _assume_role(self, token: str) -> dict[str, str]:
        pod = self._look_up_pod(token)
        with gateway.LOCK:
            return credentials.assume_pod_role(self.cluster.account, self.cluster.region, self.cluster.name, pod)

    def _look_up_pod(self, token: str) -> Pod:
        """Look up the token's pod with a TokenReview.

        The caller must not hold the local AWS's lock, because the API server may need this lock.
        """
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [mutation.AUDIENCE]},
        }
        try:
            status = self.cluster.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
        except OSError as error:
            raise CredentialsRefused(
                503, "ServiceUnavailableException", f"The API server of the cluster does not respond: {error}"
            ) from error
        user = status.get("user", {})
        extra = user.get("extra", {})
        name = str(user.get("username", ""))
        pods = extra.get("authentication.kubernetes.io/pod-name")
        if not status.get("authenticated") or not name.startswith(_SERVICE_ACCOUNT) or not pods:
            raise CredentialsRefused(
                400, "InvalidTokenException", "The token is not valid, or is not bound to a pod of this cluster"
            )
        namespace, account = name.removeprefix(_SERVICE_ACCOUNT).split(":")
        node = extra.get("authentication.kubernetes.io/node-name", [""])[0]
        return Pod(namespace, account, pods[0], extra["authentication.kubernetes.io/pod-uid"][0], node)


def build_webhook_config(url: str, authority: bytes) -> Json:
    """Return the webhook's configuration. As on EKS, pods are created unpatched if the webhook fails."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": f"{NAME}.amazonaws.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "reinvocationPolicy": "IfNeeded",
                "sideEffects": "None",
                "timeoutSeconds": 10,
                "objectSelector": {
                    "matchExpressions": [
                        {"key": "eks.amazonaws.com/skip-pod-identity-webhook", "operator": "DoesNotExist"},
                    ],
                },
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"},
                ],
            },
        ],
    }
