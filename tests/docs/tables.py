"""Generate tables and runbooks in docs/ from the code. Run `python -m tests.docs.tables` to update them."""

from functools import partial
from pathlib import Path

import localcloud.engine.aws.resources  # noqa: F401 the import registers the resource handlers
from cli import exit_codes
from cli.main import render_verb_table as verbs
from cli.stacks.settings import render_settings_table
from infra.checks.table import render_markdown as checks
from infra.jobs.model import Job
from infra.monitoring.runbooks import render_pages as runbooks
from infra.platform.job_controller.in_pod.phases import render_phase_table as phases
from infra.settings.existing import ExistingSettings
from localcloud.aws.durations import DURATIONS
from localcloud.aws.quotas import QUOTAS
from localcloud.engine.aws.resource import RESOURCES
from localcloud.images.catalogue import IMAGES, Image
from testkit import iam_policies
from tests.docs import policies

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"


def render_durations() -> str:
    lines = ["| what | seconds | source |", "|---|---|---|"]
    lines += [f"| {kind} | {duration.seconds:g} | {duration.source} |" for kind, duration in sorted(DURATIONS.items())]
    return "\n".join(lines) + "\n"


def render_resource_types() -> str:
    return ", ".join(f"`{token}`" for token in sorted(RESOURCES)) + "\n"


def _render_image_names(image: Image) -> str:
    repository = image.name.rpartition(":")[0]
    return ", ".join([f"`{repository}:{image.tags[0]}`", *(f"`{tag}`" for tag in image.tags[1:])])


def render_images() -> str:
    lines = ["| image | content | emulates the upstream image |", "|---|---|---|"]
    lines += [f"| {_render_image_names(image)} | {image.content} | {'yes' if image.stands_in else 'no'} |" for image in IMAGES]
    return "\n".join(lines) + "\n"


def render_quotas() -> str:
    lines = ["| code | quota | a new account | this account |", "|---|---|---|---|"]
    lines += [f"| {quota.code} | {quota.name} | {quota.default:g} | {quota.granted:g} |" for quota in QUOTAS]
    return "\n".join(lines) + "\n"


def render_actions() -> str:
    files = {path.name: iam_policies.list_allowed_actions(path) for path in iam_policies.list_policy_files()}
    lines = ["| action | files | source |", "|---|---|---|"]
    for action, source in iam_policies.read_action_sources().items():
        names = ", ".join(name for name, allowed_actions in files.items() if action in allowed_actions)
        lines.append(f"| {action} | {names} | {source} |")
    return "\n".join(lines) + "\n"


TABLES = [
    ("docs/reference/command-line.md", "the verbs", "the verbs", verbs),
    ("docs/reference/command-line.md", "the exit codes", "the exit codes", exit_codes.render_exit_code_table),
    ("docs/reference/settings.md", "the table: scripts/cluster settings --format markdown", "the table", render_settings_table),
    (
        "docs/reference/settings-existing.md",
        "the table: scripts/cluster settings --of existing --format markdown",
        "the table",
        partial(render_settings_table, ExistingSettings),
    ),
    ("docs/reference/phases.md", "the phases", "the phases", phases),
    ("docs/reference/plan-checks.md", "the checks", "the checks", checks),
    ("docs/iam/README.md", "the actions", "the actions", render_actions),
    (
        "docs/reference/job-fields.md",
        "the job table: scripts/cluster settings --of job --format markdown",
        "the job table",
        partial(render_settings_table, Job),
    ),
    ("docs/reference/local-cloud.md", "the durations", "the durations", render_durations),
    ("docs/reference/local-cloud.md", "the quotas", "the quotas", render_quotas),
    ("docs/reference/local-cloud.md", "the images", "the images", render_images),
    ("docs/reference/local-cloud.md", "the resource types", "the resource types", render_resource_types),
]
"""For each table: its file, the texts of its begin and end markers, and the function that renders it."""


def find_between_markers(text: str, begin: str, end: str) -> tuple[int, int]:
    """Return the start and end offsets of the text between the markers."""
    first, last = f"<!-- begin of {begin} -->\n", f"<!-- end of {end} -->"
    return text.index(first) + len(first), text.index(last)


def main() -> None:
    for policy in policies.generate_policies():
        (iam_policies.FOLDER / f"{policy}.json").write_text(policies.render_policy(policy))
    for name, begin, end, render in TABLES:
        file = ROOT / name
        text = file.read_text()
        start, stop = find_between_markers(text, begin, end)
        file.write_text(text[:start] + render() + text[stop:])
    pages = runbooks()
    for page in RUNBOOKS.glob("*.md"):
        if page.name not in pages:
            page.unlink()
    for name, text in pages.items():
        (RUNBOOKS / name).write_text(text)


if __name__ == "__main__":
    main()
