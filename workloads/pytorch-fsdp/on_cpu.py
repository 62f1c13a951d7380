"""Workarounds for FSDP2 on CPUs. They have no effect on GPUs with NCCL."""

import torch
import torch.distributed as dist


def add_missing_stream_methods() -> None:
    """Add the stream methods that FSDP2 calls and that PyTorch 2.6's `torch.cpu.Stream` lacks. The methods do nothing, because
    CPU operations already run in order.
    """
    for name in ("record_event", "wait_event"):
        if not hasattr(torch.cpu.Stream, name):
            setattr(torch.cpu.Stream, name, lambda *_: None)


def choose_loss_factor(device: torch.device) -> float:
    """Return the loss factor that makes FSDP2 average gradients over the ranks. The factor is 1 if the backend can average.

    FSDP2 requests the average from reduce_scatter. Gloo in PyTorch 2.6 returns the sum, without an error.
    """
    result = torch.empty(1, device=device)
    dist.reduce_scatter_tensor(result, torch.ones(dist.get_world_size(), device=device), op=dist.ReduceOp.AVG)
    return 1 / result.item()
