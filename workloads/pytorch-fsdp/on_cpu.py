"""What FSDP2 needs on CPUs. On GPUs with NCCL, all of this changes nothing."""

import torch
import torch.distributed as dist


def complete_streams() -> None:
    """Add the methods that FSDP2 calls on streams and that `torch.cpu.Stream` of PyTorch 2.6 lacks. Everything on a CPU
    is in order already, so they do nothing.
    """
    for name in ("record_event", "wait_event"):
        if not hasattr(torch.cpu.Stream, name):
            setattr(torch.cpu.Stream, name, lambda *_: None)


def loss_factor(device: torch.device) -> float:
    """Return the factor for the loss with which FSDP2 averages gradients over the ranks: 1 if the backend can average.

    FSDP2 asks reduce_scatter for the average. Gloo of PyTorch 2.6 returns the sum, without an error.
    """
    result = torch.empty(1, device=device)
    dist.reduce_scatter_tensor(result, torch.ones(dist.get_world_size(), device=device), op=dist.ReduceOp.AVG)
    return 1 / result.item()
