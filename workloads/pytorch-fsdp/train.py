"""Train a GPT with PyTorch's FSDP2: `torchrun --nnodes 2 --nproc_per_node 8 ... train.py --checkpoints FOLDER`.

Each rank keeps only its shards of the parameters, gradients and optimizer state. The ranks save the shards every few
steps, in the background, and a restart resumes from the latest complete checkpoint. If any rank receives SIGTERM, all
ranks save after the same step and exit. Exit codes: 0 if the model has learned the text, 143 after SIGTERM, otherwise
1.
"""

import argparse
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import sentences
import torch
import torch.distributed as dist
from checkpoints import Checkpoints
from gpt import GPT
from on_cpu import add_missing_stream_methods, choose_loss_factor
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

UNSEEN = 2**40
"""Seed of the evaluation text. The seed of the training text is the step number."""
ENOUGH = 1.0
"""The loss per character on unseen text must be below this value. An untrained model's loss is 3.3."""
ENDED_BY_SIGNAL = 128 + signal.SIGTERM
"""Nonzero exit code, so Kubernetes restarts the pod and the training resumes."""


class Stop:
    """SIGTERM handler. The ranks compare their state after each step, so all ranks end after the same step."""

    def __init__(self, device: torch.device) -> None:
        self._signaled, self._device = False, device
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, *_: Any) -> None:
        self._signaled = True

    def anywhere(self) -> bool:
        any_rank = torch.tensor(float(self._signaled), device=self._device)
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
        add_missing_stream_methods()
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    started = time.monotonic()
    try:
        model, hosts = shard_model(arguments, device), gather_from_all_ranks(socket.gethostname())
        own = sum(parameter.to_local().numel() for parameter in model.parameters())
        whole = sum(parameter.numel() for parameter in model.parameters())
        if train(arguments, model, device):
            return ENDED_BY_SIGNAL
        loss = evaluate(arguments, model, device)
    finally:
        dist.destroy_process_group()
    print_once(
        f"{len(hosts)} ranks on {len(set(hosts))} hosts by {'nccl' if on_gpu else 'gloo'}, {time.monotonic() - started:.1f} s, "
        f"{arguments.steps} steps: loss on unseen text {loss:.4f}; rank 0 holds {own} of {whole} parameters"
    )
    return 0 if loss < ENOUGH else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder on a volume shared by all ranks")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--batch", type=int, default=16, help="number of text samples per step, over all ranks")
    parser.add_argument("--context", type=int, default=32, help="number of characters in the model's context")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument(
        "--hold", type=int, metavar="STEP", help="on the first start, wait after this step until a pod is deleted"
    )
    arguments = parser.parse_args()
    if arguments.batch % int(os.environ["WORLD_SIZE"]):
        parser.error(f"--batch: must be a multiple of the number of ranks, {os.environ['WORLD_SIZE']}")
    return arguments


def shard_model(arguments: argparse.Namespace, device: torch.device) -> GPT:
    """Return the model, sharded over all ranks, block by block."""
    torch.manual_seed(0)  # same initial weights on all ranks
    model = GPT(len(sentences.CHARACTERS), arguments.context, arguments.layers, arguments.width, arguments.heads).to(device)
    on_gpu = device.type == "cuda"
    options: dict[str, Any] = {
        "mesh": init_device_mesh(device.type, (dist.get_world_size(),)),
        # In PyTorch 2.6, gathering parameters again for the backward pass needs CUDA.
        "reshard_after_forward": on_gpu,
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if on_gpu
        else MixedPrecisionPolicy(),
    }
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def train(arguments: argparse.Namespace, model: nn.Module, device: torch.device) -> bool:
    """Train the model. Return whether SIGTERM ended the training early."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    checkpoints, stop, factor = Checkpoints(arguments.checkpoints, model, optimizer), Stop(device), choose_loss_factor(device)
    step = first = checkpoints.resume()
    if first:
        print_once(f"resuming from {arguments.checkpoints}: {first} steps were completed")
    while step < arguments.steps:
        loss = compute_loss(model, make_local_batch(arguments, step, device))
        optimizer.zero_grad()
        (loss * factor).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        print_once(f"step {step}: loss {average_over_ranks(loss):.4f}")
        if stop.anywhere():
            checkpoints.save(step)
            checkpoints.wait()
            print_once(f"SIGTERM: ended after step {step}, saved to {arguments.checkpoints}")
            return True
        if step % arguments.save_every == 0:
            checkpoints.save(step)
        while step == arguments.hold and not first and not stop.anywhere():
            time.sleep(0.1)
    checkpoints.wait()
    return False


def make_local_batch(arguments: argparse.Namespace, seed: int, device: torch.device) -> torch.Tensor:
    """Return this rank's rows of a batch. The batch depends only on the seed, not on the number of ranks."""
    rows = sentences.make_batch(arguments.batch, arguments.context + 1, seed)
    return rows.tensor_split(dist.get_world_size())[dist.get_rank()].to(device)


def compute_loss(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    scores = model(rows[:, :-1])
    return nn.functional.cross_entropy(scores.float().flatten(0, 1), rows[:, 1:].flatten())


def evaluate(arguments: argparse.Namespace, model: nn.Module, device: torch.device) -> float:
    """Return the loss on text that the model has not seen."""
    with torch.no_grad():
        return average_over_ranks(compute_loss(model, make_local_batch(arguments, UNSEEN, device)))


def average_over_ranks(loss: torch.Tensor) -> float:
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def gather_from_all_ranks(own: str) -> list[str]:
    everywhere = [""] * dist.get_world_size()
    dist.all_gather_object(everywhere, own)
    return everywhere


def print_once(line: str) -> None:
    if int(os.environ["RANK"]) == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
