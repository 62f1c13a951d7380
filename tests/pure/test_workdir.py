"""`submit --workdir` selects the right files of a folder, and sends only changed files."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from cli.errors import CommandError
from cli.jobs.workdir.selection import select_files
from cli.jobs.workdir.sending import send_files

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n"


def write_files(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True)


def list_selected_files(folder: Path) -> list[str]:
    return [file.path for file in select_files(folder).files]


@pytest.mark.parametrize("repository", [True, False], ids=["in a repository", "without a repository"])
def test_ignored_files_and_the_git_folder_are_not_sent(tmp_path: Path, repository: bool) -> None:
    write_files(tmp_path, train_DOT_py="1", data__big_DOT_bin="2", data__keep_DOT_txt="3", _DOT_gitignore="*.bin\nout/\n")
    write_files(tmp_path, out__log="4", lib___DOT_gitignore="*.tmp\n", lib__a_DOT_tmp="5", lib__b_DOT_py="6")
    if repository:
        run_git(tmp_path, "init", "-q")
        run_git(tmp_path, "add", "train.py")
    assert list_selected_files(tmp_path) == [".gitignore", "data/keep.txt", "lib/.gitignore", "lib/b.py", "train.py"]


def test_a_folder_inside_a_repository_is_sent_without_the_rest(tmp_path: Path) -> None:
    write_files(tmp_path, _DOT_gitignore="*.bin\n", other_DOT_py="1", job__train_DOT_py="2", job__x_DOT_bin="3")
    run_git(tmp_path, "init", "-q")
    assert list_selected_files(tmp_path / "job") == ["train.py"]


def test_a_tracked_file_that_was_deleted_is_not_sent(tmp_path: Path) -> None:
    write_files(tmp_path, a_DOT_py="1", b_DOT_py="2")
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "add", ".")
    (tmp_path / "a.py").unlink()
    assert list_selected_files(tmp_path) == ["b.py"]


def test_submodule_files_are_sent(tmp_path: Path) -> None:
    inner = write_files(tmp_path / "outer" / "inner", lib_DOT_py="1")
    run_git(inner, "init", "-q")
    run_git(tmp_path / "outer", "init", "-q")
    assert list_selected_files(tmp_path / "outer") == ["inner/lib.py"]


SECRETS = {
    ".env": ("A=1", "may contain a secret"),
    "deploy.pem": ("x", "may contain a secret"),
    ".aws/credentials": ("x", "credentials"),
    "notes.txt": (KEY, "contains a private key"),
    "token.yaml": ("apiVersion: v1\nkind: Secret\n", "contains a Kubernetes Secret"),
    "config.py": (f"key = '{'AKIA'}{'ABCDEFGHIJKLMNOP'}'", "contains an AWS access key"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secret_files_are_never_sent_and_are_reported(tmp_path: Path, name: str) -> None:
    text, reason = SECRETS[name]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    chosen = select_files(write_files(tmp_path, train_DOT_py="1"))
    assert [file.path for file in chosen.files] == ["train.py"]
    assert chosen.left_out == (f"{name} ({reason})",)


def test_symlink_is_sent_only_if_its_target_is_in_the_folder(tmp_path: Path) -> None:
    root = write_files(tmp_path / "job", a_DOT_py="1")
    (root / "inside").symlink_to("a.py")
    (root / "outside").symlink_to("../secret")
    (root / "absolute").symlink_to(root / "a.py")
    chosen = select_files(root)
    assert chosen.links == ("inside",)
    assert chosen.left_out == tuple(f"{name} (a link to a file outside the folder)" for name in ("absolute", "outside"))


def test_a_folder_above_the_limit_is_refused_with_its_largest_files_and_the_fix(tmp_path: Path) -> None:
    write_files(tmp_path, small_DOT_py="1", large_DOT_dat="x" * (2 << 20))
    with pytest.raises(CommandError) as refused:
        select_files(tmp_path, 1)
    assert str(refused.value) == (
        f"workdir: {tmp_path} has 2.0 MiB to send; the limit is 1 MiB. Largest files: large.dat (2.0 MiB), small.py (0.0 MiB). "
        "List large files in .gitignore and put data on the shared volume, or raise --workdir-limit."
    )
    assert select_files(tmp_path, 3).size == (2 << 20) + 1


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^workdir: .*/none is not a folder on this machine$"):
        select_files(tmp_path / "none")


# --- sending -----------------------------------------------------------------------------------------------------------


def run_locally(words: Sequence[str], stdin: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
    """Run a command on this machine. The input of the command never ends, as in a pod whose cluster cannot close stdin."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(stdin.read())
        process.stdin.flush()
        out, err = process.stdout.read(), process.stderr.read()
        return subprocess.CompletedProcess(words, process.wait(), out, err)


def send_folder(source: Path, jobs: Path, job: str) -> int:
    """Send a folder. Return the number of files sent."""
    return send_files(select_files(source), run_locally, str(jobs), str(jobs / job)).files


def read_contents(jobs: Path, job: str) -> dict[str, str]:
    root = jobs / job / "workdir"
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_files_arrive_with_their_modes_and_symlinks(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", train_DOT_py="1", lib__a_DOT_py="2", run_DOT_sh="3")
    (source / "a file.txt").write_text('it\'s "quoted" $HOME\n')
    (source / "run.sh").chmod(0o755)
    (source / "link.py").symlink_to("lib/a.py")
    assert send_folder(source, tmp_path / "jobs", "one") == 4
    root = tmp_path / "jobs" / "one" / "workdir"
    assert read_contents(tmp_path / "jobs", "one")["a file.txt"] == 'it\'s "quoted" $HOME\n'
    assert (root / "link.py").readlink() == Path("lib/a.py")
    assert [oct((root / name).stat().st_mode & 0o777) for name in ("run.sh", "train.py")] == ["0o755", "0o644"]


def test_only_changed_files_are_sent_again(tmp_path: Path) -> None:
    jobs, source = tmp_path / "jobs", write_files(tmp_path / "source", a_DOT_py="1", b_DOT_py="2", c__d_DOT_py="3")
    (source / "a.py").chmod(0o755)
    assert send_folder(source, jobs, "one") == 3
    (source / "b.py").write_text("changed")
    (source / "c" / "d.py").rename(source / "moved.py")
    assert send_folder(source, jobs, "two") == 1
    assert read_contents(jobs, "two") == {"a.py": "1", "b.py": "changed", "moved.py": "3"}
    assert (jobs / "two" / "workdir" / "a.py").stat().st_mode & 0o100
    assert send_folder(source, jobs, "three") == 0


def test_file_changed_by_ranks_of_another_job_is_sent_again(tmp_path: Path) -> None:
    jobs, source = tmp_path / "jobs", write_files(tmp_path / "source", a_DOT_py="1", b_DOT_py="2")
    send_folder(source, jobs, "one")
    (jobs / "one" / "workdir" / "a.py").write_text("changed by a rank")
    assert send_folder(source, jobs, "two") == 1
    assert read_contents(jobs, "two") == {"a.py": "1", "b.py": "2"}


def test_job_that_writes_into_its_folder_does_not_change_other_jobs(tmp_path: Path) -> None:
    jobs, source = tmp_path / "jobs", write_files(tmp_path / "source", a_DOT_py="1")
    send_folder(source, jobs, "one")
    send_folder(source, jobs, "two")
    with (jobs / "two" / "workdir" / "a.py").open("a") as file:
        file.write("more")
    assert read_contents(jobs, "one") == {"a.py": "1"}


def test_an_image_without_tar_is_reported(tmp_path: Path) -> None:
    def run_without_tar(words: Sequence[str], stdin: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["/bin/sh", *words[1:]], env={"PATH": str(tmp_path)}, input=b"", capture_output=True, check=False)

    with pytest.raises(CommandError, match=r"^workdir: the folder could not be sent: the image has no awk, which is needed"):
        send_files(select_files(write_files(tmp_path / "source", a_DOT_py="1")), run_without_tar, "/jobs", "/jobs/one")
