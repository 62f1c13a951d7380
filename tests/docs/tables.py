"""Generate tables and runbooks in docs/ from the code. Run `python -m tests.docs.tables` to update them."""

from functools import partial
from pathlib import Path

import localcloud.engine.aws.resources  # noqa: F401  registers the resource handlers
from cli import exit_codes
from cli.main import markdown as verbs
from cli.stacks.settings import markdown
from infra.checks.table import markdown as checks
from infra.jobs.model import Job
from infra.monitoring.runbooks import pages as runbooks
from infra.platform.job_controller.in_pod.phases import markdown as phases
from infra.settings.existing import ExistingSettings
from localcloud.aws.durations import DURATIONS
from localcloud.aws.quotas import QUOTAS
from localcloud.engine.aws.resource import RESOURCES
from localcloud.images.catalogue import IMAGES, Image
from testkit import iam_policies
from tests.docs import policies

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"


def durations() -> str:
    lines = ["| what | seconds | source |", "|---|---|---|"]
    lines += [f"| {kind} | {duration.seconds:g} | {duration.source} |" for kind, duration in sorted(DURATIONS.items())]
    return "\n".join(lines) + "\n"


def resource_types() -> str:
    return ", ".join(f"`{token}`" for token in sorted(RESOURCES)) + "\n"


def _names(image: Image) -> str:
    repository = image.name.rpartition(":")[0]
    return ", ".join([f"`{repository}:{image.tags[0]}`", *(f"`{tag}`" for tag in image.tags[1:])])


def images() -> str:
    lines = ["| image | content | emulates upstream's |", "|---|---|---|"]
    lines += [f"| {_names(image)} | {image.content} | {'yes' if image.stands_in else 'no'} |" for image in IMAGES]
    return "\n".join(lines) + "\n"


def quotas() -> str:
    lines = ["| code | quota | a new account | this account |", "|---|---|---|---|"]
    lines += [f"| {quota.code} | {quota.name} | {quota.default:g} | {quota.granted:g} |" for quota in QUOTAS]
    return "\n".join(lines) + "\n"


def actions() -> str:
    files = {path.name: iam_policies.actions(path) for path in iam_policies.files()}
    lines = ["| action | files | source |", "|---|---|---|"]
    for action, source in iam_policies.sources().items():
        names = ", ".join(name for name, found in files.items() if action in found)
        lines.append(f"| {action} | {names} | {source} |")
    return "\n".join(lines) + "\n"


TABLES = [
    ("docs/reference/command-line.md", "the verbs", "the verbs", verbs),
    ("docs/reference/command-line.md", "the exit codes", "the exit codes", exit_codes.render_markdown),
    ("docs/reference/settings.md", "the table: scripts/cluster settings --format markdown", "the table", markdown),
    (
        "docs/reference/settings-existing.md",
        "the table: scripts/cluster settings --of existing --format markdown",
        "the table",
        partial(markdown, ExistingSettings),
    ),
    ("docs/reference/phases.md", "the phases", "the phases", phases),
    ("docs/reference/plan-checks.md", "the checks", "the checks", checks),
    ("docs/iam/README.md", "the actions", "the actions", actions),
    (
        "docs/reference/job-fields.md",
        "the job table: scripts/cluster settings --of job --format markdown",
        "the job table",
        partial(markdown, Job),
    ),
    ("docs/reference/local-cloud.md", "the durations", "the durations", durations),
    ("docs/reference/local-cloud.md", "the quotas", "the quotas", quotas),
    ("docs/reference/local-cloud.md", "the images", "the images", images),
    ("docs/reference/local-cloud.md", "the resource types", "the resource types", resource_types),
]
"""For each table: its file, the texts of its begin and end markers, and the function that renders it."""


def between(text: str, begin: str, end: str) -> tuple[int, int]:
    """Return the start and end offsets of the text between the markers."""
    first, last = f"<!-- begin of {begin} -->\n", f"<!-- end of {end} -->"
    return text.index(first) + len(first), text.index(last)


def main() -> None:
    for policy in policies.documents():
        (iam_policies.FOLDER / f"{policy}.json").write_text(policies.render(policy))
    for name, begin, end, render in TABLES:
        file = ROOT / name
        text = file.read_text()
        start, stop = between(text, begin, end)
        file.write_text(text[:start] + render() + text[stop:])
    pages = runbooks()
    for page in RUNBOOKS.glob("*.md"):
        if page.name not in pages:
            page.unlink()
    for name, text in pages.items():
        (RUNBOOKS / name).write_text(text)


if __name__ == "__main__":
    main()
