"""Implementation of Pulumi's ResourceProvider protocol for Kubernetes objects.

https://github.com/pulumi/pulumi/blob/master/proto/pulumi/provider.proto
"""

import logging
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from localcloud.engine.codec import Unsupported, decode, encode, merge_secrets
from localcloud.engine.kubernetes import lifecycle, objects
from localcloud.engine.kubernetes.api import ApiError, Unreachable
from localcloud.engine.kubernetes.checkpoint import find_secret_parts
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.clusters import Clusters, NotConfigured
from localcloud.engine.kubernetes.engines import EngineLogs, read_engine_environment
from localcloud.engine.kubernetes.failures import InitializationFailed, OperationFailed
from localcloud.engine.kubernetes.lifecycle import Difference, Task
from localcloud.engine.kubernetes.naming import Unnamed
from localcloud.engine.kubernetes.settings import Settings, find_changed_settings, find_unsupported_settings
from localcloud.engine.kubernetes.tokens import NotServed, get_urn_name, get_urn_token, parse, parse_served_kind
from localcloud.engine.paths import format_path
from localcloud.engine.wire import KINDS, abort, abort_unfinished, watch_for_disconnect

log = logging.getLogger(__name__)
T = TypeVar("T")

EXPECTED = (OperationFailed, NotServed, NotConfigured, Unnamed, Unsupported, ApiError, Unreachable)


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """gRPC service for any number of Pulumi operations, each with its own cluster."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.clusters = Clusters()
        self.logs = EngineLogs()

    # The connection

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.clusters.forget(context.peer())
        self.logs.attach(context.peer(), request.engine_address)
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, supports_autonaming_configuration=True)

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.logs.attach(context.peer(), request.address)
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=self.version)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        """End all waits and requests in flight. The state records an object that was being awaited as not ready. It
        does not record an object whose create request was in flight."""
        self.clusters.cancel(context.peer())
        return empty_pb2.Empty()

    # Provider configuration

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        config, _ = decode(request.news)
        failures = [provider_pb2.CheckFailure(property=name, reason=reason) for name, reason in find_unsupported_settings(config)]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        changed, replaces = find_changed_settings(decode(request.old_inputs)[0], decode(request.news)[0])
        some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=some if changed else none, diffs=changed, replaces=replaces)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        config, _ = decode(request.args)
        if wrong := find_unsupported_settings(config):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "; ".join(reason for _, reason in wrong))
        environment = read_engine_environment(context.peer())
        cluster = Cluster(Settings.from_config(config, environment), environment)
        if cluster.unreachable:
            log.info("%s: %s", request.urn, cluster.unreachable)
        self.clusters.remember(context.peer(), request.urn, cluster)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True)

    # Resources

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        def check_inputs(cluster: Cluster, urn: str) -> Any:
            if cluster.unreachable and cluster.settings.skip_update_unreachable:
                text = "Cluster is unreachable but skipUpdateUnreachable flag is set to true, skipping..."
                self.logs.open_resource_log(context.peer(), urn).warning(text)
                return provider_pb2.CheckResponse(inputs=request.olds)
            inputs, secrets = decode(request.news)
            previous = objects.from_pulumi(decode(request.olds)[0])
            modes = provider_pb2.CheckRequest.AutonamingOptions
            checked = lifecycle.check(
                cluster,
                parse_served_kind(get_urn_token(urn), inputs),
                inputs,
                previous,
                get_urn_name(urn),
                seed=request.randomSeed,
                proposed=request.autonaming.proposed_name,
                disabled=request.HasField("autonaming") and request.autonaming.mode == modes.DISABLE,
            )
            return provider_pb2.CheckResponse(inputs=encode(checked, find_secret_parts(checked, secrets)))

        return self._handle_request(request, context, check_inputs)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        def diff_object(cluster: Cluster, urn: str) -> Any:
            state, inputs = decode(request.olds)[0], decode(request.news)[0]
            difference = lifecycle.compute_difference(
                self._build_task(cluster, urn, context), state, inputs, request.ignoreChanges
            )
            return _build_diff_response(difference)

        return self._handle_request(request, context, diff_object)

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        def create_object(cluster: Cluster, urn: str) -> Any:
            inputs, secrets = decode(request.properties)
            task = self._build_task(cluster, urn, context)
            manifest = objects.from_pulumi(inputs)
            if request.preview:
                outcome = lifecycle.preview_creation(task, manifest, secrets)
            else:
                outcome = lifecycle.create(task, manifest, secrets, request.timeout)
            return provider_pb2.CreateResponse(id=outcome.id, properties=encode(outcome.state, outcome.secrets))

        return self._handle_request(request, context, create_object)

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        def read_object(cluster: Cluster, urn: str) -> Any:
            state, secrets = decode(request.properties)
            inputs, secret_inputs = decode(request.inputs)
            outcome = lifecycle.read(
                self._build_task(cluster, urn, context), request.id, state, inputs, merge_secrets(secrets, secret_inputs)
            )
            if outcome is None:
                return provider_pb2.ReadResponse()
            return provider_pb2.ReadResponse(
                id=outcome.id,
                properties=encode(outcome.state, outcome.secrets),
                inputs=encode(outcome.inputs or {}, find_secret_parts(outcome.inputs or {}, outcome.secrets)),
            )

        return self._handle_request(request, context, read_object)

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        def update_object(cluster: Cluster, urn: str) -> Any:
            state, _ = decode(request.olds)
            inputs, secrets = decode(request.news)
            task, ignored = self._build_task(cluster, urn, context), list(request.ignoreChanges)
            if request.preview:
                outcome = lifecycle.preview_update(task, state, inputs, secrets, ignored)
            else:
                outcome = lifecycle.update(task, state, inputs, secrets, ignored, request.timeout)
            return provider_pb2.UpdateResponse(properties=encode(outcome.state, outcome.secrets))

        return self._handle_request(request, context, update_object)

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        def delete_object(cluster: Cluster, urn: str) -> Any:
            state, secrets = decode(request.properties)
            lifecycle.delete(self._build_task(cluster, urn, context), request.id, state, secrets, request.timeout)
            return empty_pb2.Empty()

        return self._handle_request(request, context, delete_object)

    # Unsupported calls

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        _abort_unimplemented(context, f"the local Kubernetes provider does not support functions: cannot invoke {request.tok}")

    def Construct(self, request: Any, context: grpc.ServicerContext) -> Any:
        _abort_unimplemented(
            context, f"the local Kubernetes provider does not support components: cannot construct {request.type}"
        )

    def Call(self, request: Any, context: grpc.ServicerContext) -> Any:
        _abort_unimplemented(context, f"the local Kubernetes provider does not support methods: cannot call {request.tok}")

    def _build_task(self, cluster: Cluster, urn: str, context: grpc.ServicerContext) -> Task:
        gone = watch_for_disconnect(context)
        resource_log = self.logs.open_resource_log(context.peer(), urn)
        return Task(
            cluster,
            parse(get_urn_token(urn)),
            urn,
            resource_log,
            lambda: gone.is_set() or cluster.cancellation.requested.is_set(),
        )

    def _handle_request(self, request: Any, context: grpc.ServicerContext, answer: Callable[[Cluster, str], T]) -> T:
        """Look up the cluster, and convert exceptions to gRPC errors for the engine."""
        began = time.monotonic()
        try:
            return answer(self.clusters.find(context.peer(), request.urn), request.urn)
        except InitializationFailed as error:
            abort_unfinished(context, str(error), _build_init_failed_error(error))
        except EXPECTED as error:
            abort(context, str(error))
        except Exception as error:
            log.exception("%s", request.urn)
            abort(context, f"internal error in the local Kubernetes provider; see its log: {type(error).__name__}: {error}")
        finally:
            verb = type(request).__name__.removesuffix("Request")
            log.debug("%s %s: %.3f s", verb, request.urn.partition("::")[2], time.monotonic() - began)


def _abort_unimplemented(context: grpc.ServicerContext, text: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, text)
    raise AssertionError("abort raises")


def _build_init_failed_error(error: InitializationFailed) -> Any:
    return provider_pb2.ErrorResourceInitFailed(
        id=error.id,
        properties=encode(error.state, error.secrets),
        reasons=error.reasons,
        inputs=None if error.inputs is None else encode(error.inputs, find_secret_parts(error.inputs, error.secrets)),
    )


def _build_diff_response(difference: Difference) -> Any:
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    details = {
        format_path(change.path): provider_pb2.PropertyDiff(
            kind=KINDS[change.verb, change.replace], inputDiff=change.verb == "delete"
        )
        for change in difference.changes
    }
    forced = [format_path(change.path) for change in difference.changes if change.replace]
    return provider_pb2.DiffResponse(
        changes=some if difference.changes or difference.replaces else none,
        replaces=[*forced, *difference.replaces],
        deleteBeforeReplace=difference.delete_first,
        hasDetailedDiff=True,
        detailedDiff=details,
    )
