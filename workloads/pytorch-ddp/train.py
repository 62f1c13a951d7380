"""Train with PyTorch's DistributedDataParallel: `torchrun --nnodes 2 --nproc_per_node 8 ... train.py --checkpoint FILE`.

A perceptron learns to which of ten centers a point belongs; each rank trains on a shard. Rank 0 saves a checkpoint after each
epoch, from which the next start resumes. If any rank receives SIGTERM, all ranks finish the step, rank 0 saves a checkpoint,
and all exit. Exit codes: 0 if all ranks end with the same weights and the model classifies unseen points, 143 after SIGTERM,
otherwise 1.
"""

import argparse
import hashlib
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CLASSES, PIXELS, TRAINING, UNSEEN = 10, 64, 4000, 1000
ENOUGH = 0.9
"""Required accuracy on unseen points."""
ENDED_BY_SIGNAL = 128 + signal.SIGTERM
"""Nonzero exit code, so Kubernetes restarts the pod and the training resumes."""


class Stop:
    """SIGTERM handler. The ranks compare their state after each step, so all ranks end after the same step."""

    def __init__(self, device: torch.device) -> None:
        self._signaled = torch.zeros(1, device=device)
        signal.signal(signal.SIGTERM, lambda *_: self._signaled.fill_(1))

    def anywhere(self) -> bool:
        any_rank = self._signaled.clone()
        dist.all_reduce(any_rank, dist.ReduceOp.MAX)
        return bool(any_rank.item())


def main() -> int:
    arguments = parse_arguments()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)  # one thread per rank, because ranks share the cores
    dist.init_process_group("nccl" if on_gpu else "gloo")
    started = time.monotonic()
    try:
        model, ended = train(arguments, device)
        if ended:
            # End torchrun on every node too: before PyTorch 2, it waits five minutes after its ranks have ended
            os.kill(os.getppid(), signal.SIGTERM)
            return ENDED_BY_SIGNAL
        accuracy, digests, hosts = (
            compute_accuracy(model, device),
            gather_from_all_ranks(hash_weights(model)),
            gather_from_all_ranks(socket.gethostname()),
        )
    finally:
        dist.destroy_process_group()
    equal = "equal" if len(set(digests)) == 1 else "DIFFERENT"
    print_once(
        f"{len(hosts)} ranks on {len(set(hosts))} hosts by {'nccl' if on_gpu else 'gloo'}, {time.monotonic() - started:.1f} s, "
        f"{arguments.epochs} epochs: accuracy {accuracy:.3f}, weights {equal} on all ranks"
    )
    return 0 if equal == "equal" and accuracy > ENOUGH else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="file on a volume shared by all ranks")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=50, help="number of points per rank and step")
    parser.add_argument("--hold", type=int, metavar="EPOCH", help="on the first start, wait after this epoch for SIGTERM")
    return parser.parse_args()


def train(arguments: argparse.Namespace, device: torch.device) -> "tuple[nn.Module, bool]":
    """Train the model; return it, and whether SIGTERM ended the training early."""
    torch.manual_seed(0)  # same initial weights on all ranks
    model = nn.Sequential(nn.Linear(PIXELS, 128), nn.ReLU(), nn.Linear(128, CLASSES)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    epoch, step = resume(arguments.checkpoint, model, optimizer, device)
    first_start = (epoch, step) == (0, 0)
    parallel, stop = DistributedDataParallel(model), Stop(device)
    points = TensorDataset(*generate_points(TRAINING, seed=1))
    sampler: Any = DistributedSampler(points)
    while epoch < arguments.epochs:
        sampler.set_epoch(epoch)
        loss = torch.zeros(1, device=device)
        for number, batch in enumerate(DataLoader(points, arguments.batch, sampler=sampler)):
            if number < step:
                continue  # completed before the checkpoint
            loss = train_step(parallel, optimizer, *(part.to(device) for part in batch))
            if stop.anywhere():
                save(arguments.checkpoint, model, optimizer, epoch, number + 1)
                print_once(f"SIGTERM: ended in epoch {epoch + 1} after step {number + 1}, saved to {arguments.checkpoint}")
                return model, True
        epoch, step = epoch + 1, 0
        save(arguments.checkpoint, model, optimizer, epoch, step)
        print_once(f"epoch {epoch}: loss {loss.item():.4f}, accuracy on unseen points {compute_accuracy(model, device):.4f}")
        while epoch == arguments.hold and first_start and not stop.anywhere():
            time.sleep(0.1)
    return model, False


def train_step(model: nn.Module, optimizer: Any, points: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(points), answers)
    loss.backward()
    optimizer.step()
    return loss.detach()


def save(file: Path, model: nn.Module, optimizer: Any, epoch: int, step: int) -> None:
    """Save a checkpoint atomically on rank 0 while the other ranks wait."""
    if dist.get_rank() == 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_suffix(".new")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "step": step}, beside)
        beside.replace(file)
    dist.barrier()


def resume(file: Path, model: nn.Module, optimizer: Any, device: torch.device) -> "tuple[int, int]":
    """Load the checkpoint if rank 0 finds one. Return the completed epochs, and the completed steps of the next epoch."""
    exists = [file.exists()]
    dist.broadcast_object_list(exists, src=0)
    if not exists[0]:
        return 0, 0
    saved = torch.load(file, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    print_once(f"resuming from {file}: {saved['epoch']} epochs and {saved['step']} steps were completed")
    return saved["epoch"], saved["step"]


def generate_points(number: int, seed: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return random points around ten centers, and their labels. The points are the same on all ranks."""
    centers = torch.randn(CLASSES, PIXELS, generator=torch.Generator().manual_seed(0))
    own = torch.Generator().manual_seed(seed)
    answers = torch.randint(CLASSES, (number,), generator=own)
    return centers[answers] + 1.5 * torch.randn(number, PIXELS, generator=own), answers


def compute_accuracy(model: nn.Module, device: torch.device) -> float:
    points, answers = generate_points(UNSEEN, seed=2)
    with torch.no_grad():
        return float((model(points.to(device)).argmax(1).cpu() == answers).float().mean())


def hash_weights(model: nn.Module) -> str:
    """Return a digest that is equal only for bit-identical weights."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.state_dict().items()):
        digest.update(name.encode() + parameter.cpu().numpy().tobytes())
    return digest.hexdigest()


def gather_from_all_ranks(own: str) -> "list[str]":
    everywhere = [""] * dist.get_world_size()
    dist.all_gather_object(everywhere, own)
    return everywhere


def print_once(line: str) -> None:
    if int(os.environ["RANK"]) == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
