"""HTTP server of the local AWS: all services and the control API (`/local-cloud/...`) on one port of 127.0.0.1.

Sockets in other network namespaces expose only the parts of the control API that emulated services need there, and have
their own tokens.
"""

import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from typing import Any

from moto.core.request import Request
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.wrappers import Response as HttpResponse

from localcloud import problems
from localcloud.aws import account, clock, control, durations, gateway, listening, signatures, transport
from localcloud.aws.call import Response
from localcloud.aws.listening import Offer
from localcloud.http_guard import Guarded

log = logging.getLogger(__name__)

CONTROL = "/local-cloud/"
_TICK = 0.2
"""Seconds between checks for due state transitions.

Client requests also trigger a check, but realizers must learn of transitions without waiting for a request.
"""


class _ServerRequest(Request):
    """Request to the HTTP server, which adds the Date header to responses itself."""

    from_wsgi_server = True


class _Handler(Guarded, MotoRequestHandler):
    """Request handler that logs requests only at debug level."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the Date header: the time of the local AWS, which `local clock` can advance."""
        return super().date_time_string(clock.now().timestamp() if timestamp is None else timestamp)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        log.debug("%s %s", self.requestline, code)


class Application:
    """WSGI application for control API and AWS requests. An AWS request's signature identifies the service."""

    def __init__(self, offer: Offer) -> None:
        """`offer`: the part of the control API that clients may use."""
        self._offer = offer
        self._hosts = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = _ServerRequest(environ)
        body = request.get_data(cache=True, parse_form_data=False)
        environ["wsgi.input"] = io.BytesIO(body)  # moto reads the body again, and would wait for more data on the connection
        if request.path.startswith(CONTROL):
            return control.handle_request(request, self._offer)(environ, start_response)
        status, headers, body = self._answer_request(environ, request)
        headers = {name: value for name, value in headers.items() if name.lower() not in ("status", "content-length")}
        response = HttpResponse(body, status, headers)
        if request.method == "HEAD":
            response.automatically_set_content_length = False
        return response(environ, start_response)

    def _answer_request(self, environ: dict[str, Any], request: Request) -> Response:
        try:
            service = self._find_service(environ, request)
            if service is None:
                return gateway.handle_request("unknown", request, lambda: gateway.NO_SUCH_URL)
            return gateway.handle_request(service, request, lambda: transport.forward_by_path(service, request))
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return 500, {"content-type": "text/plain", "x-amzn-errortype": "InternalError"}, "The local cloud failed.\n"

    def _find_service(self, environ: dict[str, Any], request: Request) -> str | None:
        """Return moto's name for the requested service."""
        if "Authorization" not in request.headers and (credential := request.args.get("X-Amz-Credential")):
            environ = {**environ, "HTTP_AUTHORIZATION": f"{signatures.ALGORITHM} Credential={credential}"}  # for presigned URLs
        try:
            host = self._hosts.infer_service_region_host(environ, request.path) or "s3.us-east-1.amazonaws.com"
        except (IndexError, KeyError, ValueError):  # moto expects complete headers, such as X-Amz-Target
            return None
        service: str | None = self._hosts.get_backend_for_host(host)
        return service


class Server:
    """Server that runs the application on a port, with one thread per connection."""

    def __init__(self, port: int = 0) -> None:
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1",
            port,
            Application(Offer(("",), account.default_access_key().control_token)),
            threaded=True,
            request_handler=_Handler,
        )
        self._stopping = threading.Event()
        self._ticker = threading.Thread(target=self._run_clock, name="local-cloud-ticker", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def serve(self) -> None:
        """Serve until `stop` is called."""
        for name in ("127.0.0.1", "localhost"):
            listening.add_address(name, self.port)
        self._ticker.start()
        self._server.serve_forever()
        self._server.server_close()

    def add_listener(self, listener: socket.socket, offer: Offer) -> Callable[[], None]:
        """Also accept requests on another socket, until the returned function is called."""
        host, port = listener.getsockname()
        application = Application(offer)
        other = make_server(host, port, application, threaded=True, request_handler=_Handler, fd=listener.fileno())
        if not IPv4Address(host).is_loopback:  # clients never sign requests for a loopback address in another namespace
            listening.add_address(host, port)
        threading.Thread(target=other.serve_forever, name=f"local-cloud-{host}", daemon=True).start()

        def remove_listener() -> None:
            other.shutdown()
            other.server_close()
            listening.remove_address(host, port)

        return remove_listener

    def stop(self) -> None:
        """Stop accepting requests. Call this from a thread other than the one that runs `serve`."""
        self._stopping.set()
        self._server.shutdown()

    def _run_clock(self) -> None:
        while not self._stopping.wait(_TICK):
            try:
                with gateway.LOCK:
                    durations.complete_due_transitions()
            except Exception as error:  # the next tick may succeed, and `local status` shows the problem
                problems.report_problem("the clock of the local AWS", error)
