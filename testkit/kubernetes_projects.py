"""Small Pulumi programs that deploy to a Kubernetes cluster."""

import textwrap
from dataclasses import dataclass
from typing import Any

from testkit.control_plane import Objects
from testkit.projects import Outcome, Project

HEAD = """
import json, pathlib
import pulumi
import pulumi_kubernetes as k8s

config = pulumi.Config()
provider = k8s.Provider("cluster", kubeconfig=pathlib.Path("kubeconfig").read_text(), namespace={namespace!r}{settings})
opts = pulumi.ResourceOptions(provider=provider)
"""


@dataclass
class KubernetesProject:
    """A project whose program first creates a Kubernetes provider and `opts`, which selects this provider."""

    project: Project
    objects: Objects
    settings: str = ""
    """Additional provider arguments."""

    def prepare(self, kubeconfig: str) -> None:
        self.project.create("")
        self.use_kubeconfig(kubeconfig)

    def use_kubeconfig(self, kubeconfig: str) -> None:
        (self.project.folder / "kubeconfig").write_text(kubeconfig)

    def write(self, program: str) -> None:
        settings = f", {self.settings}" if self.settings else ""
        head = HEAD.format(namespace=self.objects.namespace, settings=settings)
        (self.project.folder / "__main__.py").write_text(head + textwrap.dedent(program))

    def up(self, program: str | None = None, *options: str) -> Outcome:
        return self._run("up", program, options)

    def preview(self, program: str | None = None, *options: str) -> Outcome:
        return self._run("preview", program, options)

    def refresh(self, *options: str) -> Outcome:
        return self.project.run("refresh", *options)

    def destroy(self, *options: str) -> Outcome:
        return self.project.run("destroy", *options)

    def state(self) -> dict[str, dict[str, Any]]:
        return self.project.state()

    def _run(self, verb: str, program: str | None, options: tuple[str, ...]) -> Outcome:
        if program is not None:
            self.write(program)
        return self.project.run(verb, *options)
