"""AWS API call with boto3's names for the service, operation and parameters."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import HeadersDict
from botocore.parsers import create_parser
from moto.backends import get_backend
from moto.core.model import OperationModel, ServiceModel
from moto.core.request import Request

from localcloud.aws.errors import Refused

Response = tuple[int, dict[str, Any], Any]
"""HTTP status, headers and body."""


def parse_response(operation: OperationModel, response: Response) -> dict[str, Any]:
    """Parse an HTTP response as boto3 would. The result for an error response contains the member `Error`."""
    status, headers, body = response
    if isinstance(body, str):
        body = body.encode()
    parser = create_parser(operation.service_model.resolved_protocol)
    texts = HeadersDict({str(key): str(value) for key, value in headers.items()})
    answer = {"status_code": status, "headers": texts, "body": body or b"", "context": {}}
    parsed: dict[str, Any] = parser.parse(answer, operation.output_shape)
    parsed.pop("ResponseMetadata", None)
    return parsed


@dataclass
class Call:
    """Parsed AWS API call, passed to the handler of its operation."""

    service: str
    """boto3's service name."""
    operation: str
    """boto3's operation name, such as CreateFileSystem."""
    region: str
    account: str
    access_key: str
    params: dict[str, Any]
    """Parameters specified in the request, under boto3's names."""
    request: Request
    service_model: ServiceModel = field(repr=False)
    operation_model: OperationModel = field(repr=False)
    forward: Callable[[], Response] = field(repr=False)

    def moto(self) -> dict[str, Any]:
        """Let moto handle the call, and return its response with boto3's names.

        Raise `Refused` if moto returns an error. The gateway sends that error to the client unless the handler catches
        it.
        """
        response = self.forward()
        parsed = parse_response(self.operation_model, response)
        if response[0] >= 300:
            error = parsed.get("Error", {})
            raise Refused(error.get("Code", ""), error.get("Message", ""), response)
        return parsed

    @property
    def backend(self) -> Any:
        """moto's backend for the service, account and region of this call."""
        return self.backend_of(self.service)

    def backend_of(self, service: str, region: str | None = None) -> Any:
        """Return moto's backend for another service.

        Global services (IAM, S3, STS) have one backend for all regions.
        """
        return backend_of(service, self.account, region or self.region)


def backend_of(service: str, account: str, region: str) -> Any:
    """Return moto's backend for a service, account and region. Global services have one backend for all regions."""
    regions = get_backend(service)[account]  # type: ignore[call-overload]
    return regions[region] if region in regions else regions["aws"]
