"""Requests to the sockets of a local cloud, as web pages and programs without its secrets send them."""

from collections.abc import Iterable, Iterator

from testkit.sockets import Listening

FORM = ("Content-Type", "application/x-www-form-urlencoded")
LAUNCH = b"Action=RunInstances&Version=2016-11-15&ImageId=ami-1&MinCount=1&MaxCount=1"
TARGETS = ("/", "/local-cloud/health", "/local-cloud/reset", "/v2/", "/v1/credentials", "/latest/api/token", "/mutate")


def list_accepted_requests(sockets: Iterable[Listening]) -> list[str]:
    """Return the requests that were not rejected, as sentences."""
    return [sentence for listening in sockets for sentence in _find_accepted_requests(listening)]


def _find_accepted_requests(listening: Listening) -> Iterator[str]:
    own, foreign, page = ("Host", listening.authority), ("Host", "evil.example"), ("Origin", "null")
    requests = {
        "a read for a foreign host": ("GET", [foreign], b""),
        "a read of a web page": ("GET", [own, page], b""),
        "a write for a foreign host": ("POST", [foreign, FORM], LAUNCH),
        "a write of a web page": ("POST", [own, page, FORM], LAUNCH),
        "a write without a secret": ("POST", [own, FORM], LAUNCH),
    }
    for tls in (False, True):
        if listening.send_request("GET", "/", [own], b"", tls=tls) is None:
            continue  # it does not speak HTTP, or only to clients with a certificate
        for kind, (method, headers, body) in requests.items():
            for target in TARGETS:
                answer = listening.send_request(method, target, headers, body, tls=tls)
                if answer is not None and answer.status < 400:
                    yield f"{listening.program} at {listening.authority} accepts {kind}: {method} {target}"
