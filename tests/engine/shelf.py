"""A resource type that exists only in memory, and the engine's side of the provider protocol."""

from collections.abc import Mapping
from typing import Any, ClassVar

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Gone, Partial, Prop, Resource, State
from localcloud.engine.codec import Secrets, decode, encode

TOKEN = "aws:test/shelf:Shelf"
URN = f"urn:pulumi:dev::tiny::pulumi:pulumi:Stack${TOKEN}::books"
PROVIDER_URN = "urn:pulumi:dev::tiny::pulumi:providers:aws::default_7_51_1"


class Shelf(Resource):
    """Stores its inputs, adds a few outputs, and fails in the step named by the input `fail`."""

    token: ClassVar[str] = TOKEN
    title = "Test Shelf"
    props: ClassVar[Mapping[str, Prop]] = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True),
        "size": Prop(fields={"wanted": Prop(), "most": Prop()}),
        "boards": Prop(unordered=True, fields={"color": Prop(), "thick": Prop(default=False)}),
        "document": Prop(json=True),
        "password": Prop(write_only=True),
        "place": Prop(replace=True, default="wall"),
        "tags": Prop(default={}),
        "fail": Prop(default=""),
    }
    auto_name = AutoName(max_length=24)
    recomputed: ClassVar[frozenset[str]] = frozenset({"version"})
    nested_outputs: ClassVar[frozenset[str]] = frozenset({"size.used", "boards.number"})

    def __init__(self) -> None:
        self.shelves: dict[str, State] = {}
        self.updates: list[tuple[Args, frozenset[str]]] = []
        self.regions: list[str] = []

    def create(self, aws: Aws, args: Args) -> str:
        self.regions.append(aws.region)
        if args.get("fail") == "create":
            raise Failed("the wall is too weak")
        if args.get("fail") == "bug":
            raise KeyError("screw")
        id = f"shelf-{len(self.shelves)}"
        self.shelves[id] = {name: value for name, value in args.items() if name != "password"} | {"place": "wall", "version": 1}
        if "size" in args:
            self.shelves[id]["size"] = args["size"] | {"used": 0}
        if args.get("fail") == "halfway":
            self.shelves[id]["tags"] = {}
            raise Partial(id, "no paint")
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        return self.shelves.get(id)

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self.updates.append((new, changed))
        if new.get("fail") == "update":
            raise Failed("nobody has a drill")
        self.shelves[id] |= {name: new[name] for name in changed if name in new} | {"version": old["version"] + 1}

    def delete(self, aws: Aws, id: str, state: State) -> None:
        if self.shelves.pop(id, None) is None:
            raise Gone()


class Engine:
    """Sends an engine's requests to a provider. Each instance has its own connection."""

    def __init__(self, port: int, region: str | None = "us-west-2") -> None:
        own_connection = ("grpc.use_local_subchannel_pool", 1)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[*_GRPC_CHANNEL_OPTIONS, own_connection])
        self.stub = provider_pb2_grpc.ResourceProviderStub(self.channel)
        self.stub.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address="127.0.0.1:1"))
        if region:
            self.configure(region=region)

    def configure(self, urn: str = PROVIDER_URN, **config: Any) -> Any:
        return self.stub.Configure(provider_pb2.ConfigureRequest(urn=urn, args=encode(config)))

    def check(self, news: Args, olds: Args | None = None, **more: Any) -> tuple[Args, dict[str, str]]:
        answer = self.stub.Check(provider_pb2.CheckRequest(urn=URN, news=encode(news), olds=encode(olds or {}), **more))
        return decode(answer.inputs)[0], {failure.property: failure.reason for failure in answer.failures}

    def diff(self, state: State, news: Args, ignored: tuple[str, ...] = ()) -> Any:
        request = provider_pb2.DiffRequest(id="x", urn=URN, olds=encode(state), news=encode(news), ignoreChanges=ignored)
        return self.stub.Diff(request)

    def create(
        self, inputs: Args, secrets: Mapping[str, Secrets] | None = None, *, preview: bool = False, urn: str = URN
    ) -> tuple[str, Any]:
        answer = self.stub.Create(provider_pb2.CreateRequest(urn=urn, properties=encode(inputs, secrets), preview=preview))
        return answer.id, decode(answer.properties)

    def read(self, id: str, state: State | None = None, inputs: Args | None = None) -> tuple[str, State, Args]:
        request = provider_pb2.ReadRequest(id=id, urn=URN, properties=encode(state or {}), inputs=encode(inputs or {}))
        answer = self.stub.Read(request)
        return answer.id, decode(answer.properties)[0], decode(answer.inputs)[0]

    def update(self, id: str, state: State, news: Args, ignored: tuple[str, ...] = (), *, preview: bool = False) -> State:
        request = provider_pb2.UpdateRequest(
            id=id, urn=URN, olds=encode(state), news=encode(news), ignoreChanges=ignored, preview=preview
        )
        return decode(self.stub.Update(request).properties)[0]

    def delete(self, id: str) -> None:
        self.stub.Delete(provider_pb2.DeleteRequest(id=id, urn=URN, properties=encode({})))


def read_init_failure(error: grpc.RpcError) -> Any:
    """Return the error's details about a partly created resource, or None if nothing was created."""
    assert isinstance(error, grpc.Call)
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            detail = provider_pb2.ErrorResourceInitFailed()
            assert status_pb2.Status.FromString(value).details[0].Unpack(detail)
            return detail
    return None
