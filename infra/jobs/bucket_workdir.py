"""The folder that `submit` sends for a job without a writable shared volume: an archive in the stack's bucket.

An init container in each pod unpacks the archive, so every pod has its own copy. Files that ranks write there are lost
with the pod.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final

from infra.jobs.files import ROLE, rank_pods
from infra.jobs.in_pods import python
from infra.jobs.pieces import Piece
from infra.jobs.pods import Manifest, PlacedJob, container, helper_resources, user_containers
from infra.naming import KEY_BUCKET_CONFIG, KEY_BUCKET_KEY, WORKDIR_KEYS

NAME: Final = "workdir"
FOLDER: Final = "/gpumpi/workdir"
MEMORY_MIB: Final = 256


def prefix(namespace: str, digest: str) -> str:
    """Return the key prefix of all uploaded copies of the folder with this digest."""
    return f"{WORKDIR_KEYS}/{namespace}/{digest}/"


def used_by(pieces: Sequence[Piece], placed: PlacedJob, key: str) -> list[Piece]:
    """Return copies of a job's objects in which ranks start in the folder that the bucket stores under this key."""
    made = [Piece(deepcopy(piece.manifest), piece.owner) for piece in pieces]
    for pod in (pod for piece in made for pod in rank_pods(piece.manifest)):
        ranks = user_containers(pod)
        if not ranks:
            continue
        for one in ranks:
            one["workingDir"] = FOLDER
            one["volumeMounts"] = [*one["volumeMounts"], _mount()]
        pod["volumes"] = [*pod["volumes"], {"name": NAME, "emptyDir": {}}]
        pod["initContainers"] = [_unpack(placed, key), *pod.get("initContainers", ())]
    return made


def _mount() -> Manifest:
    return {"name": NAME, "mountPath": FOLDER}


def _unpack(placed: PlacedJob, key: str) -> Manifest:
    alone = replace(placed, job=placed.job.model_copy(update={"env": {}, "secret_env": {}}))
    made = container(
        alone, NAME, python("workdir_from_bucket.py", key, FOLDER), {}, resources=helper_resources(placed, MEMORY_MIB)
    )
    bucket = {"configMapKeyRef": {"name": KEY_BUCKET_CONFIG, "key": KEY_BUCKET_KEY}}
    made["env"] += [{"name": "GPUMPI_BUCKET", "valueFrom": bucket}]
    made["volumeMounts"] = [*made["volumeMounts"], _mount()]
    return made


def record(placed: PlacedJob, object: Mapping[str, str], id: str) -> Manifest:
    """Return a ConfigMap that outlives the job, so that the job's object in the bucket can be removed afterwards."""
    metadata = placed.metadata(f"{placed.job.name}-{ROLE}-{id}", ROLE)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(object)}
