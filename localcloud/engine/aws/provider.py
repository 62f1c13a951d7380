"""Implementation of Pulumi's ResourceProvider protocol on top of the resource handlers.

https://github.com/pulumi/pulumi/blob/master/proto/pulumi/provider.proto
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from localcloud.engine.aws import clients, lifecycle
from localcloud.engine.aws.autonaming import Wish
from localcloud.engine.aws.configurations import Configurations, NotConfigured, find_unsupported_settings
from localcloud.engine.aws.diff import Change, Difference, compare
from localcloud.engine.aws.lifecycle import InitializationFailed, OperationFailed
from localcloud.engine.aws.resource import RESOURCES, Aws, Prop, Resource
from localcloud.engine.codec import Secrets, Unsupported, decode, encode, merge_secrets
from localcloud.engine.paths import format_path
from localcloud.engine.wire import KINDS, abort, abort_unfinished, watch_for_disconnect

log = logging.getLogger(__name__)
T = TypeVar("T")

SERVICES = ("ec2", "iam", "eks", "autoscaling", "efs", "fsx", "s3", "kms", "logs")
PROVIDER_PROPS = {"region": Prop(replace=True)}
"""Changing the region replaces the provider and all its resources."""


class UnknownType(Exception):
    """The provider has no handler for the type token."""


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """gRPC service for any number of Pulumi operations, each with its own configuration."""

    def __init__(self, version: str, endpoint: str) -> None:
        self.version = version
        self.endpoint = endpoint
        self.configurations = Configurations()

    # The connection

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.configurations.forget(context.peer())
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, supports_autonaming_configuration=True)

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=self.version)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Do nothing. As in the official provider, the engine waits for running operations to finish."""
        return empty_pb2.Empty()

    # Provider configuration

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        config, _ = decode(request.news)
        failures = [provider_pb2.CheckFailure(property=name, reason=reason) for name, reason in find_unsupported_settings(config)]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        olds, news = decode(request.old_inputs)[0], decode(request.news)[0]
        return _build_diff_response(compare(PROVIDER_PROPS, olds, {name: news[name] for name in PROVIDER_PROPS if name in news}))

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        config, _ = decode(request.args)
        if wrong := find_unsupported_settings(config):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "; ".join(reason for _, reason in wrong))
        self.configurations.remember(context.peer(), request.urn, Aws(config["region"], endpoint=self.endpoint))
        clients.create_clients_in_background(SERVICES, config["region"], self.endpoint)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True)

    # Resources

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        def check_inputs(resource: Resource, aws: Aws) -> Any:
            inputs, secrets = decode(request.news)
            modes = provider_pb2.CheckRequest.AutonamingOptions
            disabled = request.HasField("autonaming") and request.autonaming.mode == modes.DISABLE
            wish = Wish(request.randomSeed, request.autonaming.proposed_name, disabled)
            previous = decode(request.olds)[0]
            checked, refusals = lifecycle.check(resource, _parse_name(request.urn), inputs, previous, wish)
            failures = [provider_pb2.CheckFailure(property=refusal.path, reason=refusal.reason) for refusal in refusals]
            return provider_pb2.CheckResponse(inputs=encode(checked, secrets), failures=failures)

        return self._handle_request(request, context, check_inputs)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        def diff_resource(resource: Resource, aws: Aws) -> Any:
            inputs = decode(request.news)[0]
            difference = lifecycle.compute_difference(resource, decode(request.olds)[0], inputs, request.ignoreChanges)
            return _build_diff_response(difference, lifecycle.must_delete_before_replace(resource, inputs, difference))

        return self._handle_request(request, context, diff_resource)

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        def create_resource(resource: Resource, aws: Aws) -> Any:
            inputs, secrets = decode(request.properties)
            if request.preview:
                return provider_pb2.CreateResponse(properties=encode(lifecycle.preview_creation(resource, inputs), secrets))
            try:
                creation = lifecycle.create(resource, aws, _parse_name(request.urn), inputs)
            except InitializationFailed as error:
                raise _Unfinished(error, encode(error.state, _collect_secret_outputs(secrets))) from error
            return provider_pb2.CreateResponse(
                id=creation.id, properties=encode(creation.state, _collect_secret_outputs(secrets))
            )

        return self._handle_request(request, context, create_resource)

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        def read_resource(resource: Resource, aws: Aws) -> Any:
            recorded, secrets = decode(request.properties)
            inputs, secret_inputs = decode(request.inputs)
            state = lifecycle.read(resource, aws, request.id, recorded)
            if state is None:
                return provider_pb2.ReadResponse()
            refreshed = lifecycle.refresh_inputs(resource, inputs, state)
            secrets = merge_secrets(secrets, secret_inputs)
            return provider_pb2.ReadResponse(
                id=request.id, properties=encode(state, _collect_secret_outputs(secrets)), inputs=encode(refreshed, secrets)
            )

        return self._handle_request(request, context, read_resource)

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        def update_resource(resource: Resource, aws: Aws) -> Any:
            state, _ = decode(request.olds)
            inputs, secrets = decode(request.news)
            ignored = list(request.ignoreChanges)
            if request.preview:
                news = lifecycle.preview_update(resource, state, inputs, ignored)
                return provider_pb2.UpdateResponse(properties=encode(news, _collect_secret_outputs(secrets)))
            try:
                updated = lifecycle.update(resource, aws, request.id, state, inputs, ignored)
            except InitializationFailed as error:
                raise _Unfinished(error, encode(error.state, _collect_secret_outputs(secrets))) from error
            return provider_pb2.UpdateResponse(properties=encode(updated, _collect_secret_outputs(secrets)))

        return self._handle_request(request, context, update_resource)

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        def delete_resource(resource: Resource, aws: Aws) -> Any:
            lifecycle.delete(resource, aws, request.id, decode(request.properties)[0])
            return empty_pb2.Empty()

        return self._handle_request(request, context, delete_resource)

    # Unsupported calls

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED, f"the local provider does not support functions: cannot invoke {request.tok}"
        )

    def Construct(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"the local provider does not support components: cannot construct {request.type}",
        )

    def Call(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the local provider does not support methods: cannot call {request.tok}")

    def _handle_request(self, request: Any, context: grpc.ServicerContext, answer: Callable[[Resource, Aws], T]) -> T:
        """Look up the handler and the configuration, and convert exceptions to gRPC errors for the engine."""
        began = time.monotonic()
        gone = watch_for_disconnect(context)
        try:
            aws = self.configurations.find(context.peer(), request.urn)
            with clients.block_requests_after(gone):
                return answer(_find_handler(request.urn), replace(aws, cancelled=gone))
        except _Unfinished as unfinished:
            abort_unfinished(context, str(unfinished), unfinished.detail)
        except (OperationFailed, UnknownType, NotConfigured, Unsupported) as error:
            abort(context, str(error))
        finally:
            verb = type(request).__name__.removesuffix("Request")
            log.debug("%s %s: %.3f s", verb, request.urn.partition("::")[2], time.monotonic() - began)


class _Unfinished(Exception):
    """`InitializationFailed` with the state in wire format."""

    def __init__(self, cause: InitializationFailed, properties: Any) -> None:
        super().__init__(str(cause))
        self.detail = provider_pb2.ErrorResourceInitFailed(id=cause.id, properties=properties, reasons=[str(cause)])


def _collect_secret_outputs(secrets: Mapping[str, Secrets]) -> Mapping[str, Secrets]:
    """Return the secret outputs: every secret input, and `tagsAll` if `tags` is secret."""
    return {**secrets, "tagsAll": secrets["tags"]} if "tags" in secrets else secrets


def _find_handler(urn: str) -> Resource:
    token = urn.split("::")[2].split("$")[-1]
    handler = RESOURCES.get(token)
    if handler is None:
        raise UnknownType(f"the local provider does not support the resource type {token}")
    return handler


def _parse_name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _build_diff_response(difference: Difference, delete_before_replace: bool = False) -> Any:
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some if difference else none,
        diffs=sorted(difference.keys),
        replaces=sorted(difference.replaces),
        deleteBeforeReplace=delete_before_replace,
        hasDetailedDiff=True,
        detailedDiff={format_path(change.path): _build_property_diff(change) for change in difference.changes},
    )


def _build_property_diff(change: Change) -> Any:
    return provider_pb2.PropertyDiff(kind=KINDS[change.kind, change.replace])
