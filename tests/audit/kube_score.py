"""Run kube-score, which judges Kubernetes objects together: for example, whether a network policy selects each pod.

kube-linter would be the usual choice, but not every Go proxy serves its module (golang.stackrox.io/kube-linter).
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import yaml

from localcloud.tools import build
from localcloud.tools.catalogue import KUBE_SCORE
from tests.audit.scanner import Finding, Report

CRITICAL = 1
PASSED = 10
"""Grades: https://github.com/zegl/kube-score/blob/v1.20.0/scorecard/scorecard.go"""


def scan_manifests(manifests: Iterable[dict[str, Any]]) -> Report:
    """Scan Kubernetes objects. The failures are the critical findings."""
    program = build.ensure_tool(KUBE_SCORE, lambda line: print(line, file=sys.stderr))
    command = [str(program), "score", "--output-format", "json", "--kubernetes-version", "v1.32", "-"]
    # Exit code 1: there are critical findings.
    result = subprocess.run(command, input=yaml.safe_dump_all(manifests), capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1) or not result.stdout.startswith("["):
        raise RuntimeError(f"kube-score exited with code {result.returncode}:\n{result.stderr[-2000:]}")
    passed, failures = set(), set()
    for item in json.loads(result.stdout):
        resource = f"{item['type_meta']['kind']}.{item['object_meta'].get('namespace', '')}.{item['object_meta']['name']}"
        for check in item["checks"]:
            if check["skipped"]:
                continue
            if check["grade"] == PASSED:
                passed.add(check["check"]["id"])
            if check["grade"] == CRITICAL:
                failures |= {Finding(check["check"]["id"], resource, each["summary"]) for each in check["comments"]}
    return Report(frozenset(passed), tuple(sorted(failures, key=lambda finding: (finding.check, finding.resource))))
