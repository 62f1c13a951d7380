"""Install our emulators under the official plugins' names, in the folders that `pulumi plugin install` uses.

The engine starts and stops these simulated plugins like the official ones, with the same handshake. Tests with them do
not show which inputs the official plugins accept.
"""

import sys
from pathlib import Path

from localcloud.engine.process import read_package_version
from localcloud.officials import PROVIDERS
from localcloud.processes import ROOT

_HEAD = f"""#!{sys.executable}
import json, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from localcloud.engine import process
"""
_TAIL = """
server, port = process.start(provider, "simulated", 0)
print(port, flush=True)
threading.Event().wait()
"""
_KUBERNETES = """
from localcloud.engine.kubernetes.provider import Provider
provider = Provider(VERSION)
"""
_AWS = """
import os
import localcloud.engine.aws.resources
from localcloud.engine.aws import provider as emulator
from localcloud.engine.codec import decode, encode

def region_only(args):
    config, secrets = decode(args)
    return encode({"region": config["region"]}, secrets) if config.get("region") else args

class Provider(emulator.Provider):
    def CheckConfig(self, request, context):
        super().CheckConfig(type(request)(urn=request.urn, news=region_only(request.news)), context)
        return emulator.provider_pb2.CheckResponse(inputs=request.news)

    def Configure(self, request, context):
        config = decode(request.args)[0]
        endpoints = config.get("endpoints")
        if endpoints:
            (services,) = json.loads(endpoints) if isinstance(endpoints, str) else endpoints
            (self.endpoint,) = set(services.values())
        request.args.CopyFrom(region_only(request.args))
        return super().Configure(request, context)

provider = Provider(VERSION, os.environ.get("AWS_ENDPOINT_URL", ""))
"""
"""Like the official plugin, this simulated plugin accepts the setting `endpoints`, which our emulator rejects."""
_HOST = """
from localcloud.engine import language_host
language_host.main()
"""


def build_script(name: str, version: str) -> str:
    body = {"aws": _AWS, "kubernetes": _KUBERNETES}[name]
    return _HEAD + body.replace("VERSION", repr(version)) + _TAIL


def install_host(folder: Path) -> Path:
    """Install our language host under the name of the official one."""
    file = folder / "pulumi-language-python"
    file.write_text(_HEAD + _HOST)
    file.chmod(0o755)
    return file


def install_plugin(pulumi_home: Path, name: str, version: str | None = None, *, folder_version: str = "") -> Path:
    """Install a simulated plugin where `pulumi plugin install resource NAME VERSION` installs the official one."""
    version = read_package_version(PROVIDERS[name]) if version is None else version
    file = pulumi_home / "plugins" / f"resource-{name}-v{folder_version or version}" / f"pulumi-resource-{name}"
    file.parent.mkdir(parents=True)
    file.write_text(build_script(name, version))
    file.chmod(0o755)
    return file
