"""Job verbs with the access entries and Roles of `target.users`, and with docs/iam/job-user.json as the only AWS policy."""

import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from testkit.eks_clusters import REGION
from testkit.job_cluster import IMAGE, NAMESPACE, POOL, ROOT, SOURCE, STACK, JobCluster

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

POLICY = ROOT / "docs" / "iam" / "job-user.json"
LISTENING = """
import http.server, sys
print("listening", sys.argv[1:], flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 8123), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
MISSING = ("GPUs in use: ", "events of nodes: ", "journal of nodes: ")
"""What `status` and `health` say that they cannot read with the permissions of a job user."""


@dataclass(frozen=True)
class UserCluster(JobCluster):
    """The cluster as the session of an IAM role reaches it."""

    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return self.cloud.process_environment() | self.keys | {"KUBECONFIG": str(self.kubeconfig)}


def log_in(job_cluster: JobCluster, role: str, folder: Path) -> UserCluster:
    """Return the cluster with a kubeconfig that the user has written with only the documented policy."""
    clients = job_cluster.cloud.clients(REGION)
    clients("iam").put_role_policy(RoleName=role, PolicyName="job-user", PolicyDocument=POLICY.read_text())
    arn = f"arn:aws:iam::123456789012:role/{role}"
    session = clients("sts").assume_role(RoleArn=arn, RoleSessionName="somebody")["Credentials"]
    keys = {
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
    }
    user = UserCluster(job_cluster.cloud, folder / f"{role}.yaml", keys=keys)
    done = user.cluster("kubeconfig", "-s", STACK, "--config-dir", str(SOURCE), "-o", str(user.kubeconfig))
    assert done.code == 0, done.err
    return user


@pytest.fixture
def researcher(job_cluster: JobCluster, tmp_path: Path) -> UserCluster:
    return log_in(job_cluster, "Researcher", tmp_path)


@pytest.fixture
def reviewer(job_cluster: JobCluster, tmp_path: Path) -> UserCluster:
    return log_in(job_cluster, "Reviewer", tmp_path)


@pytest.fixture
def listening_job(job_cluster: JobCluster, researcher: UserCluster, tmp_path: Path) -> Iterator[str]:
    """A running job of the researcher that starts in a folder that `submit` has sent."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "serve.py").write_text(LISTENING)
    values = {"name": "theirs", "launcher": "standalone", "pool": POOL, "workers": 2, "image": IMAGE, "workdir": "."}
    (folder / "theirs.yaml").write_text(yaml.safe_dump({**values, "perNode": 1, "command": ["python3", "serve.py"]}))
    done = researcher.cluster("submit", str(folder / "theirs.yaml"))
    assert done.code == 0, done.err
    job_cluster.await_phase("theirs", "Running")
    yield "theirs"


def list_refusals(output: str) -> list[str]:
    return [line for line in output.splitlines() if "may not" in line and not any(text in line for text in MISSING)]


def test_a_submitter_runs_watches_and_deletes_a_job(researcher: UserCluster, listening_job: str) -> None:
    for verb in (["status"], ["health"], ["jobs", "--all"], ["jobs", "-A"], ["goodput"], ["logs", listening_job]):
        done = researcher.cluster(*verb)
        assert done.code == 0 and not list_refusals(done.out + done.err), (verb, done)
    assert researcher.cluster("exec", listening_job, "--", "ls").out.split() == ["serve.py", "theirs.yaml"]
    with researcher.run_in_background("port-forward", listening_job, "0:8123") as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert b"serve.py" in answer.read()
    done = researcher.cluster("delete", listening_job)
    assert done.code == 0 and "deleted, with 1 record" in done.out, done


def test_a_submitter_runs_a_smoke_test(researcher: UserCluster) -> None:
    done = researcher.cluster("smoke", "--pool", POOL, "--workers", "2", "--image", IMAGE, "--launcher", "standalone")
    assert done.code == 0 and not list_refusals(done.out + done.err), done


def test_a_viewer_watches_a_job_and_cannot_touch_it(reviewer: UserCluster, listening_job: str) -> None:
    for verb in (["status"], ["health"], ["jobs", "--all"], ["goodput"], ["logs", listening_job]):
        done = reviewer.cluster(*verb)
        assert done.code == 0 and not list_refusals(done.out + done.err), (verb, done)
    for verb in (["exec", listening_job, "--", "true"], ["cancel", listening_job], ["delete", listening_job]):
        done = reviewer.cluster(*verb)
        assert done.code != 0 and "may not" in done.err and "ask for access" in done.err, (verb, done)


def test_a_submitter_cannot_leave_the_namespace(researcher: UserCluster) -> None:
    for words in (
        ["get", "secrets", "-n", "kube-system"],
        ["get", "secrets", "-n", NAMESPACE],
        ["get", "pods", "-n", "foreign"],
        ["create", "rolebinding", "more", "-n", NAMESPACE, "--clusterrole=cluster-admin", "--group=gpumpi:job-users"],
        ["create", "token", "mpi-job", "-n", NAMESPACE],
        ["get", "configmaps", "-n", "gpumpi-system"],
    ):
        done = researcher.kubectl(*words)
        assert done.code != 0 and "forbidden" in done.err.lower(), (words, done)


def test_a_session_has_the_groups_of_its_role_and_no_others(researcher: UserCluster) -> None:
    groups = researcher.kubectl("auth", "whoami", "-o", "json").json["status"]["userInfo"]["groups"]
    assert set(groups) == {"gpumpi:job-users", f"gpumpi:job-users:submit:{NAMESPACE}", "system:authenticated"}
