"""`import` of batch scripts: job sizes, srun options, and the shell functions that replace srun."""

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from cli.jobs.importing import formats
from cli.jobs.importing.source import NotImportable

CORPUS: Final = Path(__file__).parents[1] / "corpus"


def import_script(*options: str, body: str = "srun ./train", shebang: str = "#!/bin/bash") -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the job imported from a script, and the notes."""
    directives = "".join(f"#SBATCH {option}\n" for option in options)
    imported = formats.import_job(f"{shebang}\n{directives}{body}\n", {})
    return imported.draft.values, [str(note) for note in imported.notes]


def run_imported_script(case: str, tmp_path: Path, programs: dict[str, str], **environment: str) -> str:
    """Run an imported script with stubs for the programs that it starts. Return its output."""
    command = formats.import_job((CORPUS / case).read_text(), {}).draft.values["command"]
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOSTNAME": "llama-0", **environment}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_srun_starts_torchrun_once_per_worker_with_job_rendezvous(tmp_path: Path) -> None:
    said = run_imported_script(
        "srun-torchrun.sbatch",
        tmp_path,
        {"torchrun": 'echo "torchrun $*"'},
        NNODES="4",
        NPROC_PER_NODE="8",
        JOB_COMPLETION_INDEX="2",
        MASTER_ADDR="llama-0.llama.jobs.svc",
    )
    rendezvous = "--rdzv_id=llama --rdzv_backend=c10d --rdzv_endpoint=llama-0.llama.jobs.svc"
    assert said == f"torchrun --nproc_per_node=8 --nnodes=4 {rendezvous} train.py\n"


def test_srun_becomes_mpirun_and_ranks_see_slurm_variables(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("jax-worker-0.jax slots=8\njax-worker-1.jax slots=8\n")
    mpirun = 'echo "mpirun $1 $2"; shift 2; OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=16 "$@"'
    (tmp_path / "run.sh").write_text('echo "rank $SLURM_PROCID of $SLURM_NTASKS on $SLURM_JOB_NUM_NODES nodes: $*"\n')
    said = run_imported_script("srun-tasks.sbatch", tmp_path, {"mpirun": mpirun}, OMPI_MCA_orte_default_hostfile=str(hosts))
    assert said == "mpirun -np 16\nrank 3 of 16 on 2 nodes: jax-worker-0.jax jax-worker-1.jax\n"


# --- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (["--nodes=2", "--ntasks-per-node=8", "--gpus-per-task=1"], (2, 8, 8)),
        (["--nodes=2", "--ntasks=8", "--gpus-per-task=2"], (2, 4, 8)),
        (["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8"], (2, 1, 8)),
        (["--nodes=2", "--tasks-per-node=2", "-G 8"], (2, 2, 4)),
        (["--ntasks=16", "--ntasks-per-node=8"], (2, 8, None)),
        (["--gres=gpu:8"], (1, None, 8)),
        (["--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--gres=gpu:8", "--gpus-per-task=1"], (2, 8, 8)),
    ],
)
def test_imported_job_has_nodes_tasks_and_gpus_of_the_script(options: list[str], sizes: tuple[int | None, ...]) -> None:
    job, notes = import_script(*options)
    assert (job["workers"], job.get("slots"), job.get("gpusPerWorker")) == sizes
    assert notes == []


@pytest.mark.parametrize(
    ("options", "sizes", "note"),
    [
        (["--nodes=2", "--ntasks=17"], (2, 9, None), "--ntasks=17: 2 workers with 9 ranks each have 18 ranks. Use `srun -n 17`"),
        (["--ntasks=16"], (1, 16, None), "--ntasks=16: one worker with 16 ranks, because the script has no --nodes."),
        (["--nodes=2", "--ntasks=8", "--ntasks-per-node=8"], (2, 4, None), "--ntasks-per-node=8: 4, because of --ntasks"),
        (["--gres=nic:1,gpu:8"], (1, None, 8), "--gres=nic:1: a worker gets only GPUs and the network devices of its pool"),
        (["--gpus-per-node=a100:4"], (1, None, 4), "--gpus-per-node=a100:4: the GPU type a100 is a property of the pool"),
        (["--nodes=2", "--gpus=9"], (2, None, 5), "--gpus=9: 2 workers with 5 GPUs each have 10 GPUs"),
        (["--gpus-per-node=8", "--gpus-per-task=2"], (1, None, 8), "--gpus-per-task=2: --gpus-per-node sets the GPUs"),
    ],
)
def test_size_that_differs_from_the_script_is_reported(options: list[str], sizes: tuple[int | None, ...], note: str) -> None:
    job, notes = import_script(*options)
    assert (job["workers"], job.get("slots"), job.get("gpusPerWorker")) == sizes
    (only,) = notes
    assert note in only


@pytest.mark.parametrize("limit", ["UNLIMITED", "infinite", "0"])
def test_a_script_without_a_time_limit_becomes_a_job_without_a_deadline(limit: str) -> None:
    job, notes = import_script(f"--time={limit}")
    assert "activeDeadlineSeconds" not in job
    assert notes == [f"line 2: changed: --time={limit}: a job without activeDeadlineSeconds has no time limit"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--time=tomorrow", "--time=tomorrow is not a time. Use minutes, H:M:S or D-H:M:S"),
        ("--nodes=2-4", "--nodes=2-4 is not a number. Use a number"),
        ("--gpus-per-node=many", "--gpus-per-node=many is not a number. Use a number"),
    ],
)
def test_unreadable_value_is_refused_with_its_line(option: str, message: str) -> None:
    with pytest.raises(NotImportable, match=rf"^line 2: {message}$"):
        import_script(option)


# --- the shell and srun ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shebang", ["#!/usr/bin/env python3", "#!/usr/bin/python3 -u", "#!/bin/zsh", "#!/usr/bin/perl"])
def test_non_bash_script_is_refused_with_the_fix(shebang: str) -> None:
    with pytest.raises(NotImportable, match=r"^line 1: \w+ cannot run .* import a bash script that starts it"):
        import_script(shebang=shebang)


def test_shell_options_are_kept_except_for_login_shell() -> None:
    job, notes = import_script(shebang="#!/usr/bin/env -S bash -leu")
    assert job["command"][:3] == ["bash", "-eu", "-c"]
    assert notes == ["line 1: dropped: -leu: the image sets the environment, so no login shell is needed"]


def test_here_document_keeps_its_tabs_and_other_reformatting_is_reported() -> None:
    document = "cat <<-END\n\tone  \n\tEND"
    job, notes = import_script(body=document)
    assert job["command"][-1].endswith(f"{document}\n") and notes == []
    job, notes = import_script(body="if true; then\n\tsrun ./train \nfi")
    assert job["command"][-1].endswith("if true; then\n    srun ./train\nfi\n")
    assert notes == ["script: changed: tabs became four spaces, and trailing spaces were removed"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (
            "srun --container-image x.sqsh --container-mounts=/a:/a ./train",
            ["--container-image x.sqsh", "--container-mounts=/a:/a"],
        ),
        ("srun -c 8 -w node1 ./train -c 1", ["-c 8", "-w node1"]),
        ("srun \\\n  -c8 \\\n  ./train", ["-c8"]),
        ("ARGS=(--exclusive)\nARGS+=(--gpu-bind=none)\nsrun ${ARGS[@]} ./train", ["--exclusive", "--gpu-bind=none"]),
        ("a=$(srun -N 1 ./a)", ["-N 1"]),
        ("srun -n 2 -N 2 --ntasks-per-node=4 ./train", []),
        ('srun -N "$SLURM_NNODES" ./train', []),
        ("# srun -c 8 ./train\nPROGRAM=./train\nsrun $PROGRAM -c 8", []),
    ],
)
def test_srun_options_ignored_by_the_wrapper_are_reported_with_their_line(body: str, named: list[str]) -> None:
    _, notes = import_script("--nodes=2", "--ntasks-per-node=4", body=body)
    assert [note.partition(": dropped: srun ")[2].rsplit(": ", 1)[0] for note in notes] == named
    lines = f"#!\n\n\n{body}".splitlines()
    assert all("srun" in lines[int(note.partition(":")[0].removeprefix("line ")) - 1] for note in notes)


@pytest.mark.parametrize("case", ["srun-options.sbatch", "srun-torchrun.sbatch"])
@pytest.mark.parametrize("options", ["--kill-on-bad-exit", "--pty -u", "-c 8 --overcommit", "--container-remap-root"])
def test_srun_flags_do_not_consume_the_program_name(case: str, options: str, tmp_path: Path) -> None:
    command = formats.import_job((CORPUS / case).read_text(), {}).draft.values["command"]
    functions = command[-1].partition("\n}\n\n")[0]
    for name, script in {"mpirun": 'shift 2\nexec "$@"', "train": 'echo "trains $*"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "hosts").touch()
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OMPI_MCA_orte_default_hostfile": str(tmp_path / "hosts")}
    script = f"{functions}\n}}\nsrun {options} -n 1 train --epochs 4"
    assert (
        subprocess.run([*command[:-1], script], env=env, capture_output=True, text=True, check=True).stdout
        == "trains --epochs 4\n"
    )
