"""Surfaces: HTTP requests of web pages and other users of the machine -> the dashboard, and the local cloud.

The judge knows the token and the key, but no request has them.
"""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from email.message import Message
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import Any, Final

from bench.trust.inputs import draw_text
from bench.trust.judge import Judge
from cli.clusters.dashboard import server as dashboard

SECRET: Final = "a secret of the cluster"
PORT: Final = 8080
PATHS: Final = (
    "/",
    "/data.json",
    "/{part}/data.json",
    "//{part}",
    "/../data.json",
    "/%2e%2e/data.json",
    "/page.js",
    "/?token={part}",
    "*",
)
HOSTS: Final = (
    *(
        "127.0.0.1:8080",
        "localhost",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1]",
        "evil@127.0.0.1",
    ),
    *("127.0.0.1:8080, evil.example", "", "127.0.0.1#evil", "0.0.0.0", "2130706433", "127.1", "LOCALHOST", "[", "127.0.0.1:x"),
)
METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "TRACE", "CONNECT", "get", "G\tT")
OWN_HOSTS: Final = ("127.0.0.1", "localhost")


class Connection:
    """Connection with a request that has arrived; it collects the answer."""

    def __init__(self, request: bytes) -> None:
        self._request, self.answer = request, io.BytesIO()

    def makefile(self, mode: str, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._request)

    def sendall(self, data: Any) -> None:
        self.answer.write(bytes(data))

    def settimeout(self, _: float | None) -> None:
        pass

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", PORT


class Server:
    """The attributes of the server that the dashboard's handler uses."""

    token = "q5Zr0Vd8n3Kx7Lw2Tb9Yc4Mf6Hj1Ps-GkAeUoRiQnXv"

    def data(self) -> Any:
        return {"title": SECRET}


def draw_header(random: Random, name: str, values: tuple[str, ...]) -> str:
    value = random.choice(values) if random.randrange(4) else draw_text(random)
    return f"{name}: {value}".replace("\n", " ").replace("\r", " ")


def draw_request(random: Random, token: str) -> tuple[bytes, str, str]:
    """Return a request, its path and its Host header. The path never begins with the token; the host may be anything."""
    part = token[: random.randrange(len(token))]
    path = random.choice(PATHS).format(part=part) if random.randrange(3) else f"/{draw_text(random)}"
    if random.randrange(3) == 0:  # a web page whose author knows the token, but whose host name is its own
        path, host = (
            f"/{token}/data.json",
            random.choice([name for name in HOSTS if name.rpartition(":")[0] not in OWN_HOSTS and name.lower() not in OWN_HOSTS]),
        )
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}"]
    else:
        host = ""
        lines = [
            f"{random.choice(METHODS)} {path} HTTP/{random.choice(('1.1', '1.0', '2', 'x'))}".replace("\n", " "),
            draw_header(random, "Host", HOSTS),
        ]
    lines += [
        draw_header(random, name, ("x", "0", "1e9", "chunked", "https://evil.example", "null"))
        for name in random.choices(
            ("Origin", "Cookie", "Content-Length", "Transfer-Encoding", draw_text(random).replace(":", "")[:20] or "X"),
            k=random.randrange(4),
        )
    ]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1", "replace"), path, host


def answer_request(handler: type[BaseHTTPRequestHandler], request: bytes, server: Any) -> str:
    connection: Any = Connection(request)
    handler(connection, ("127.0.0.1", 1), server)
    return str(connection.answer.getvalue().decode("latin-1"))


def try_dashboard(judge: Judge, random: Random, count: int) -> None:
    server = Server()
    for _ in range(count):
        request, _, _ = draw_request(random, server.token)
        with judge.attempt():
            answer = answer_request(dashboard._Handler, request, server)
            judge.require(SECRET not in answer, "crossed", f"{request!r} got the data")
            judge.require(server.token not in answer, "crossed", f"{request!r} got the token")
            judge.require(not answer.startswith(("HTTP/1.1 2", "HTTP/1.0 2")), "executed", f"{request!r} got {answer[:60]!r}")
    right = f"GET /{server.token}/data.json HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nConnection: close\r\n\r\n".encode()
    judge.require(SECRET in answer_request(dashboard._Handler, right, server), "lost", "the right request got no data")


# --- local cloud -------------------------------------------------------------------------------------------------------------

ACTIONS: Final = ("RunInstances", "GetCallerIdentity", "CreateUser", "TerminateInstances", "DescribeInstances", "AssumeRole")


def draw_authorization(random: Random, key: str) -> str | None:
    """Return a header without a valid signature."""
    day, region, service = "20261129", random.choice(("us-west-2", "x", "../")), random.choice(("ec2", "sts", "iam", "s3", "x"))
    scope = f"{random.choice((key, 'AKIAIOSFODNN7EXAMPLE', draw_text(random)))}/{day}/{region}/{service}/aws4_request"
    signature = random.choice(("0" * 64, "f" * 64, "", draw_text(random), "0" * 63))
    headers = random.choice(("host;x-amz-date", "host", "", "x-amz-date"))
    return random.choice(
        (
            None,
            f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={headers}, Signature={signature}",
            f"Bearer {draw_text(random)}",
            "Basic Og==",
            draw_text(random),
        )
    )


def draw_environment(random: Random, key: str) -> dict[str, Any]:
    """Return the WSGI environment of a request that has passed the check of its Host header."""
    action, service = random.choice(ACTIONS), random.choice(("ec2", "sts", "iam", "eks", "s3"))
    body = random.choice(
        (
            f"Action={action}&Version=2016-11-15&ImageId=ami-1&MinCount=1&MaxCount=1&UserData=eA==",
            json.dumps({"a": draw_text(random)}),
            draw_text(random),
        )
    )
    path = random.choice(("/", "/clusters", "/local-cloud/reset", "/local-cloud/clock", "/bucket/key", f"/{draw_text(random)}"))
    data = body.encode(errors="surrogatepass")
    query = random.choice(
        ("", "", f"X-Amz-Credential={key}/20261129/us-west-2/{service}/aws4_request&X-Amz-Signature={'0' * 64}")
    )
    environment: dict[str, Any] = {
        **{
            "REQUEST_METHOD": random.choice(("GET", "POST", "PUT", "DELETE")),
            "PATH_INFO": path.encode(errors="replace").decode("latin-1"),
        },
        **{
            "SCRIPT_NAME": "",
            "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "4566",
            "HTTP_HOST": "127.0.0.1:4566",
        },
        **{
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(data),
            "CONTENT_LENGTH": str(len(data)),
        },
        **{
            "CONTENT_TYPE": random.choice(("application/x-www-form-urlencoded", "application/json", "text/plain", "")),
            "REMOTE_ADDR": "127.0.0.1",
        },
    }
    authorization = draw_authorization(random, key)
    if authorization is not None:
        environment["HTTP_AUTHORIZATION"] = authorization.encode(errors="replace").decode("latin-1")
    if random.randrange(2):
        environment["HTTP_X_AMZ_DATE"] = "20261129T000000Z"
    return environment


def judge_host(judge: Judge, random: Random, find_refusal_reason: Any) -> None:
    """Report a foreign Host header, or a request of a web page, that a server of the local cloud accepts."""
    headers = Message()
    host = random.choice(HOSTS)
    headers["Host"] = host
    has_origin = bool(random.randrange(2))
    if has_origin:
        headers["Origin"] = random.choice(("null", "https://evil.example", f"http://127.0.0.1:{PORT}", ""))
    is_own = host.lower() in (f"127.0.0.1:{PORT}", f"localhost:{PORT}")
    reason = find_refusal_reason(random.choice(("/", "/x", "http://evil.example/", "*")), headers, "127.0.0.1", PORT)
    judge.require(reason or (is_own and not has_origin), "executed", f"Host {host!r}, origin {has_origin} was accepted")


@contextmanager
def silence_server() -> Iterator[None]:
    """Suppress the output of moto and the log of the local cloud about requests for unknown services."""
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def try_local_cloud(judge: Judge, random: Random, count: int) -> None:
    from localcloud.aws import extend
    from localcloud.aws.account import default_access_key
    from localcloud.aws.listening import Offer
    from localcloud.aws.server import Application
    from localcloud.http_guard import find_refusal_reason

    extend.extend_moto()
    key = default_access_key()
    application = Application(Offer(("",), key.control_token))
    statuses: list[str] = []
    for _ in range(count):
        environment = draw_environment(random, key.access_key_id)
        about = {name: environment[name] for name in ("REQUEST_METHOD", "PATH_INFO", "HTTP_AUTHORIZATION") if name in environment}
        with judge.attempt(), silence_server():
            statuses.clear()
            answer = b"".join(application(environment, lambda status, *_: statuses.append(status)))
            judge.require(not statuses[0].startswith("2"), "executed", f"{about} got {statuses[0]}: {answer[:100]!r}")
            judge.require(not statuses[0].startswith("500"), "tracebacks", f"{about} got {statuses[0]}: {answer[:200]!r}")
            judge.require(key.secret_access_key.encode() not in answer, "crossed", f"{about} got the key")
            judge_host(judge, random, find_refusal_reason)
