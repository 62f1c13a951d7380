"""Proxy from a port on 127.0.0.1 to an API server inside a network namespace.

`python -m localcloud.kubernetes.loopback --namespace NAME --to ADDRESS:PORT --ready-file FILE --away-file FILE`

EKS has a load balancer, which sends requests to another API server while one API server restarts. The proxy emulates
that by holding new connections while the file in --away-file exists. The process opens its listening socket first.
The process then enters the namespace permanently and connects to the API server from inside.
"""

import argparse
import asyncio
import json
import socket
import sys
from pathlib import Path

from localcloud import whole_file
from localcloud.machine import network

NAME = "loopback"
CHUNK = 1 << 16
AWAY_SECONDS = 30.0
POLL_SECONDS = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m localcloud.kubernetes.loopback")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--to", required=True, help="address:port inside the namespace")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 selects a free one")
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--away-file", type=Path, required=True, help="file that exists while the API server restarts")
    arguments = parser.parse_args()
    address, port = arguments.to.rsplit(":", 1)
    listener = network.listen(None, "127.0.0.1", arguments.port)
    network.enter_namespace(arguments.namespace)
    whole_file.write_atomically(arguments.ready_file, json.dumps({"port": listener.getsockname()[1]}))
    asyncio.run(_serve_proxy(listener, address, int(port), arguments.away_file))
    return 0


async def _serve_proxy(listener: socket.socket, address: str, port: int, away: Path) -> None:
    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _wait_for_restart(away)
        try:
            far_reader, far_writer = await asyncio.open_connection(address, port)
        except OSError:  # the API server is not listening
            writer.close()
            return
        try:
            await asyncio.gather(_copy_stream(reader, far_writer), _copy_stream(far_reader, writer))
        finally:
            for end in (writer, far_writer):
                end.close()

    server = await asyncio.start_server(handle_connection, sock=listener, limit=CHUNK)
    async with server:
        await server.serve_forever()


async def _wait_for_restart(away: Path) -> None:
    """Wait until the API server has restarted, but at most AWAY_SECONDS."""
    for _ in range(int(AWAY_SECONDS / POLL_SECONDS)):
        if not away.exists():
            return
        await asyncio.sleep(POLL_SECONDS)


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy data in one direction until the sender closes its stream. The other direction may stay open."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


if __name__ == "__main__":
    sys.exit(main())
