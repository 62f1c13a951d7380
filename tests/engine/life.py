"""Drive a resource through its lifecycle as Pulumi operations do, with the code that the provider and mocks share."""

from collections.abc import Iterable
from typing import Any

from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.autonaming import Wish
from localcloud.engine.aws.resource import Args, Aws, Resource, State


class Life:
    """A program's resource, created by the constructor."""

    def __init__(self, resource: Resource, aws: Aws, inputs: Args, name: str = "it") -> None:
        self.resource = resource
        self.aws = aws
        self.name = name
        self.inputs: Args = {}
        self.inputs = self.check_inputs(inputs)
        creation = lifecycle.create(resource, aws, name, self.inputs)
        self.id = creation.id
        self.state: State = creation.state

    def check_inputs(self, inputs: Args) -> Args:
        """Return the inputs after the provider's Check; the test fails if Check rejects them."""
        checked, refusals = lifecycle.check(self.resource, self.name, inputs, self.inputs, Wish())
        assert refusals == []
        return checked

    def program_inputs(self) -> Args:
        """Return the inputs that the program set."""
        return {name: value for name, value in self.inputs.items() if name != lifecycle.DEFAULTS}

    def find_differences(self, inputs: Args | None = None) -> frozenset[str]:
        """Return the properties that the next `up` would change."""
        next_inputs = self.inputs if inputs is None else self.check_inputs(inputs)
        return lifecycle.compute_difference(self.resource, self.state, next_inputs).keys

    def find_replacements(self, inputs: Args) -> frozenset[str]:
        """Return the properties that would make the next `up` replace the resource."""
        return lifecycle.compute_difference(self.resource, self.state, self.check_inputs(inputs)).replaces

    def update(self, inputs: Args, ignored: Iterable[str] = ()) -> None:
        self.inputs = self.check_inputs(inputs)
        self.state = lifecycle.update(self.resource, self.aws, self.id, self.state, self.inputs, ignored)

    def refresh(self) -> State | None:
        """Update the state from AWS and return the new state, or None if the resource no longer exists."""
        current = lifecycle.read(self.resource, self.aws, self.id, self.state)
        self.state = self.state if current is None else current
        return current

    def delete(self) -> None:
        lifecycle.delete(self.resource, self.aws, self.id, self.state)


class Recorder(dict[str, Any]):
    """Inputs that record which properties a handler reads. At the top level, only access by name counts as a
    read, not iteration. Inside objects, iteration counts too, because AWS rejects unknown members."""

    def __init__(self, values: Args, reads: set[str], path: str = "") -> None:
        super().__init__(values)
        self.reads = reads
        self.path = path

    def _read(self, name: str) -> Any:
        path = f"{self.path}.{name}" if self.path else name
        self.reads.add(path)
        return self._wrap(super().get(name), path)

    def _wrap(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return Recorder(value, self.reads, path)
        return [self._wrap(element, path) for element in value] if isinstance(value, list) else value

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._read(name)

    def get(self, name: str, default: Any = None) -> Any:
        member = self._read(name)
        return default if member is None else member

    def __iter__(self) -> Any:
        return super().__iter__()  # overridden so that `{**recorder}` reads each member

    def items(self) -> Any:
        if not self.path:
            return super().items()
        return [(name, self._read(name)) for name in list(super().keys())]
