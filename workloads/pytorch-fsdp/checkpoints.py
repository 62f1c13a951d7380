"""Distributed checkpoints: each rank saves its own shards, in the background while training continues."""

import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

KEPT = 2
"""Number of complete checkpoints to keep."""


class Checkpoints:
    """Checkpoints in `FOLDER/step-N`. A checkpoint is complete when it has `.metadata`, which PyTorch writes last.

    The number of ranks that load a checkpoint may differ from the number that saved it.
    """

    def __init__(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._folder, self._model, self._optimizer = folder, model, optimizer
        # The saving thread needs its own process group: its messages must not mix with those of the training.
        self._group = dist.new_group(backend="gloo")
        self._saving: Future[Any] | None = None

    def save(self, step: int) -> None:
        """Wait until the previous checkpoint is complete. Then copy the state, and write it in the background."""
        self.wait()
        saving = dcp.async_save(self._state(), checkpoint_id=self._path(step), process_group=self._group)
        assert isinstance(saving, Future)
        self._saving = saving

    def wait(self) -> None:
        """Wait until the last checkpoint is complete, then delete old ones."""
        if self._saving is not None:
            self._saving.result()
            self._saving = None
            self._delete(self._complete()[:-KEPT])

    def resume(self) -> int:
        """Load the latest complete checkpoint. Return its step, or 0 if there is none."""
        latest = [self._complete()[-1:]]
        dist.broadcast_object_list(latest, src=0)  # all ranks must load the same checkpoint
        if not latest[0]:
            return 0
        (step,) = latest[0]
        model, optimizer = state = get_state_dict(self._model, self._optimizer)
        dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=self._path(step), process_group=self._group)
        set_state_dict(self._model, self._optimizer, model_state_dict=state[0], optim_state_dict=state[1])
        return step

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        return {"model": model, "optimizer": optimizer}

    def _path(self, step: int) -> Path:
        return self._folder / f"step-{step}"

    def _complete(self) -> list[int]:
        return sorted(int(file.parent.name.partition("-")[2]) for file in self._folder.glob("step-*/.metadata"))

    def _delete(self, steps: list[int]) -> None:
        if dist.get_rank() == 0:
            for step in steps:
                # must come first, so that a partly deleted checkpoint does not count as complete
                (self._path(step) / ".metadata").unlink()
                shutil.rmtree(self._path(step))
