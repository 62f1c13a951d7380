"""`python -m localcloud.conformance`: run the stacks with the official Pulumi CLI and AWS provider against the local AWS.

If the CLI or the provider is not installed, the command prints "skipped" with the reason and exits with status 0.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from infra.config import stack_file
from localcloud.control import ControlError
from localcloud.engine.aws.server import plugin_version
from localcloud.instance import LocalCloud, official
from localcloud.processes import ROOT
from localcloud.stack import LocalStack, PulumiError, Verb

SERVICES = ("autoscaling", "ec2", "efs", "eks", "iam", "kms", "logs", "s3", "sts")
"""AWS services that the Pulumi program uses. The official provider sends their API calls to the local AWS."""


class OfficialCloud(LocalCloud):
    """A local cloud that uses the user's installed AWS provider plugin instead of the emulated one."""

    def process_environment(self) -> dict[str, str]:
        ours = ("PULUMI_DEBUG_PROVIDERS", "PULUMI_HOME")
        kept = {name: value for name, value in super().process_environment().items() if name not in ours}
        return kept | ({"PULUMI_HOME": os.environ["PULUMI_HOME"]} if "PULUMI_HOME" in os.environ else {})


class OfficialStack(LocalStack):
    """A stack that points the official provider at the local AWS with settings in its copied stack file."""

    def _copy(self, source: Path) -> None:
        super()._copy(source)
        content = yaml.safe_load(self.config_file.read_text())
        content["config"] |= provider_settings(self.cloud.server("aws").url)
        self.config_file.write_text(yaml.safe_dump(content, sort_keys=False))


def provider_settings(url: str) -> dict[str, object]:
    """Return the provider settings for the local AWS: https://www.pulumi.com/registry/packages/aws/api-docs/provider/"""
    return {
        "aws:endpoints": [dict.fromkeys(SERVICES, url)],
        "aws:s3UsePathStyle": True,
        "aws:skipCredentialsValidation": True,
        "aws:skipMetadataApiCheck": True,
    }


def missing() -> str | None:
    """Return which of the two prerequisites is missing and how to install it; None if both are installed."""
    pulumi = official("pulumi")
    if pulumi is None:
        return "no official pulumi is on PATH (https://www.pulumi.com/docs/install/)"
    listed = subprocess.run([pulumi, "plugin", "ls", "--json"], capture_output=True, text=True, check=False)
    plugins = json.loads(listed.stdout or "[]") if listed.returncode == 0 else []
    wanted = plugin_version()
    series = wanted.rpartition(".")[0] + "."
    if any(plugin["name"] == "aws" and str(plugin.get("version", "")).startswith(series) for plugin in plugins):
        return None
    return f"the AWS provider is not installed (pulumi plugin install resource aws v{wanted})"


def judge(stack: LocalStack) -> str | None:
    """Run a stack's lifecycle. Return the first failure, or None if every step succeeds."""
    try:
        return _judged(stack)
    except (ControlError, PulumiError) as error:
        return str(error)


def _judged(stack: LocalStack) -> str | None:
    control = stack.cloud.control()
    stack.prepare()
    stack.grant()
    control.accept()
    lifecycle: tuple[tuple[str, Verb], ...] = (("preview", "preview"), ("up", "up"), ("up again", "up"), ("destroy", "destroy"))
    for step, verb in lifecycle:
        run = stack.run(verb)
        if not run.ok:
            return f"{step}: {'; '.join(run.errors) or run.output}"
        if step == "up again" and run.changed:
            return f"{step}: expected no changes, got {run.changed}"
    left = control.leftovers()
    return f"destroy leaves {left}" if left else None


def main() -> int:
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        cloud = OfficialCloud(Path(folder) / "cloud")
        try:
            cloud.start(lambda line: print(line, file=sys.stderr, flush=True))
            for name in stack_file.names(ROOT / "stacks"):
                wrong = judge(OfficialStack(cloud, name))
                failed = failed or wrong is not None
                print(f"{name}: {wrong or 'ok'}", flush=True)
                cloud.reset()
        finally:
            cloud.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
