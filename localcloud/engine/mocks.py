"""Pulumi mocks that call an in-process local AWS, so unit tests fail on requests that AWS would reject.

with MotoMocks("us-west-2") as mocks:
    pulumi.runtime.set_mocks(mocks, project="gpumpi", stack="test")
    ...run the program...
mocks.list_created("aws:ec2/vpc:Vpc")
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import boto3
import pulumi
from moto import mock_aws
from moto.moto_api._internal import mock_random
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks
from pulumi.runtime.settings import ROOT

import localcloud.engine.aws.resources  # noqa: F401  registers the handlers
from localcloud.aws import account, extend
from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.autonaming import Wish
from localcloud.engine.aws.resource import RESOURCES, Args, Aws, Resource, State
from localcloud.engine.codec import UNKNOWN, Unknown
from localcloud.engine.kubernetes import mocks as kubernetes_mocks

FOREIGN_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN")
"""Environment variables that would redirect requests away from the in-process account."""


class MockFailed(Exception):
    """The program uses a resource that is unsupported or that AWS or Kubernetes would reject. The message contains the
    reason."""


@dataclass(frozen=True)
class Created:
    """Resource registered by the program."""

    token: str
    name: str
    inputs: Args
    """Inputs set by the program, in camelCase."""
    id: str | None
    """Resource id; None for components and in previews."""
    state: State
    provider: str


class MotoMocks(Mocks):
    """Pulumi mocks with an empty AWS account, as a context manager. Names and ids are reproducible."""

    def __init__(self, region: str = "us-west-2", *, preview: bool = False) -> None:
        """`preview`: must equal the value passed to `set_mocks`, which the threads that call the mocks cannot see."""
        self.region = region
        self.preview = preview
        self.resources: list[Created] = []
        self._aws = Aws(region, endpoint=None, poll_seconds=0.001)
        self._names: Counter[tuple[str, str]] = Counter()
        self._objects = kubernetes_mocks.Recorder()
        self._lock = threading.Lock()
        self._closed = False
        self._exit = ExitStack()

    def __enter__(self) -> "MotoMocks":
        extend.extend_moto()
        credentials = {
            **account.default_access_key().environment,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
        }
        self._exit.enter_context(patch.dict(os.environ, credentials))  # restores the environment on exit
        for name in FOREIGN_VARIABLES:
            os.environ.pop(name, None)
        self._exit.enter_context(patch.object(boto3, "DEFAULT_SESSION", None))  # remembers credentials
        self._exit.enter_context(mock_aws(config={"core": {"mock_credentials": False}}))
        mock_random.seed(0)
        _get_event_loop().set_exception_handler(_report_loop_error)
        return self

    def __exit__(self, *_: object) -> None:
        # After a program has failed, Pulumi's tasks and threads continue, so the next test would receive the resources that
        # they register and the errors that they raise. Pulumi would also reuse the root resource. If the registration of
        # the root resource is canceled, its URN stays unknown, and the next program would wait for the URN forever.
        _cancel_tasks()
        ROOT.set(None)
        with self._lock:
            self._closed = True
            self._exit.close()

    def list_created(self, token: str) -> list[Created]:
        """Return all resources of a type, in order of registration."""
        return [resource for resource in self.resources if resource.token == token]

    def call(self, args: MockCallArgs) -> Any:
        raise MockFailed(f"the program calls the function {args.token}, but the local provider does not support functions")

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        inputs, secrets = _to_plain_inputs(args.inputs)
        with self._lock:  # Pulumi uses many threads, but moto's backends are not thread-safe
            if self._closed:
                raise MockFailed(f"{args.typ} {args.name} was registered after the test had ended")
            id, state = self._create_resource(args, inputs)
            created = Created(args.typ, args.name, lifecycle.remove_internal_inputs(inputs), id, state, args.provider or "")
            self.resources.append(created)
        return id, {name: _to_wire_value(value, secret=name in secrets) for name, value in state.items()}

    def _create_resource(self, args: MockResourceArgs, inputs: Args) -> tuple[str | None, State]:
        if not args.custom and not args.resource_id:
            return None, inputs
        if args.typ.startswith("pulumi:providers:"):
            return f"{args.name}-id", inputs
        if kubernetes_mocks.is_kubernetes_type(args.typ):
            return self._record_object(args, inputs)
        handler = RESOURCES.get(args.typ)
        if handler is None:
            raise MockFailed(f"the local provider does not support the resource type {args.typ}")
        if args.resource_id:
            return args.resource_id, self._read_state(handler, args.resource_id)
        checked = self._check_inputs(handler, args.name, inputs)
        if self.preview:
            return None, lifecycle.preview_creation(handler, checked)
        creation = lifecycle.create(handler, self._aws, args.name, checked)
        return creation.id, creation.state

    def _record_object(self, args: MockResourceArgs, inputs: Args) -> tuple[str | None, State]:
        if args.resource_id:
            return args.resource_id, inputs
        self._names[args.typ, args.name] += 1
        seed = f"{args.typ} {args.name} {self._names[args.typ, args.name]}".encode()
        try:
            id, state = self._objects.record_object(args.typ, args.name, inputs, seed)
        except kubernetes_mocks.ObjectRefused as error:
            raise MockFailed(str(error)) from error
        return None if self.preview else id, state

    def _check_inputs(self, handler: Resource, name: str, inputs: Args) -> Args:
        self._names[handler.token, name] += 1
        seed = f"{handler.token} {name} {self._names[handler.token, name]}".encode()
        checked, refusals = lifecycle.check(handler, name, inputs, {}, Wish(seed=seed))
        if refusals:
            raise MockFailed(f"{handler.token} {name}: " + "; ".join(refusal.reason for refusal in refusals))
        return checked

    def _read_state(self, handler: Resource, id: str) -> State:
        state = lifecycle.read(handler, self._aws, id, {})
        if state is None:
            raise MockFailed(f"{handler.token}: there is no {id}")
        return state


def _get_event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this thread, in which Pulumi registers resources.

    Create an event loop if the thread has none, for example after `asyncio.run`.
    """
    policy = asyncio.get_event_loop_policy()
    try:
        return policy.get_event_loop()
    except RuntimeError:
        policy.set_event_loop(policy.new_event_loop())
        return policy.get_event_loop()


def _report_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error of the event loop, except the repetitions of an error that a failed program has already raised.

    Pulumi's other futures keep that error, and asyncio would print it for each of them when they are deleted.
    """
    if "never retrieved" not in context["message"]:
        loop.default_exception_handler(context)


def _cancel_tasks() -> None:
    loop = _get_event_loop()
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def _to_plain_inputs(inputs: Mapping[str, Any]) -> tuple[Args, frozenset[str]]:
    """Return the inputs as plain values for the handlers, together with the names of the secret inputs."""
    secrets = frozenset(name for name, value in inputs.items() if rpc.is_rpc_secret(value))
    values = {name: _to_plain_value(value) for name, value in inputs.items()}
    return {name: value for name, value in values.items() if value is not None}, secrets


def _to_plain_value(value: Any) -> Any:
    if rpc.is_rpc_secret(value):
        return _to_plain_value(rpc.unwrap_rpc_secret(value))
    if isinstance(value, Mapping):
        members = {name: _to_plain_value(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not None}
    if isinstance(value, list):
        return [_to_plain_value(element) for element in value]
    if isinstance(value, pulumi.output.Unknown):
        return UNKNOWN
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_wire_value(value: Any, *, secret: bool = False) -> Any:
    """Convert a plain value to the representation that Pulumi's mocks expect."""
    if secret:
        return rpc.wrap_rpc_secret(_to_wire_value(value))
    if isinstance(value, Mapping):
        return {name: _to_wire_value(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_to_wire_value(element) for element in value]
    if isinstance(value, Unknown):
        return rpc.UNKNOWN
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
