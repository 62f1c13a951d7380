"""Train with JAX on several hosts: `train.py --checkpoint FILE`, started once per GPU with the variables of torchrun.

A perceptron learns handwritten digits. Each process feeds a shard of every batch, and XLA sums the gradients over all devices.
The first process saves a checkpoint after each epoch, and the next start resumes from it. If any process receives SIGTERM, all
processes end after the same step. Exit codes: 0 if all processes end with the same weights and the model recognizes unseen
digits, 143 after SIGTERM, otherwise 1.
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

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

CLASSES, HIDDEN, UNSEEN = 10, 64, 297
ENOUGH = 0.9
"""Required accuracy on unseen digits."""
MOMENTUM = 0.9
ENDED_BY_SIGNAL = 128 + signal.SIGTERM
"""Nonzero exit code, so the job restarts and the training resumes."""

State = dict[str, Any]
"""Weights, and their velocities for the momentum, by name."""


def main() -> int:
    arguments = parse_arguments()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # GPUs use NCCL
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        num_processes=int(os.environ["WORLD_SIZE"]),
        process_id=int(os.environ["RANK"]),
        local_device_ids=[int(os.environ["LOCAL_RANK"])],  # one GPU per process
    )
    started = time.monotonic()
    images, answers = load_shuffled_digits()
    state, ended = train(arguments, images[:-UNSEEN], answers[:-UNSEEN])
    if ended:
        return ENDED_BY_SIGNAL
    accuracy = float((np.argmax(compute_scores(get_weights(state), images[-UNSEEN:]), axis=1) == answers[-UNSEEN:]).mean())
    own = f"{socket.gethostname()} {hash_weights(state)}".encode().ljust(100)
    everywhere = multihost_utils.process_allgather(np.frombuffer(own, dtype=np.uint8)).reshape(-1, 100)
    hosts, digests = zip(*(row.tobytes().decode().split() for row in everywhere), strict=True)
    equal = "equal" if len(set(digests)) == 1 else "DIFFERENT"
    print_once(
        f"{jax.process_count()} processes on {len(set(hosts))} hosts by {jax.default_backend()}, "
        f"{time.monotonic() - started:.1f} s, {arguments.epochs} epochs: accuracy {accuracy:.3f}, weights {equal} on all"
    )
    return 0 if equal == "equal" and accuracy > ENOUGH else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="file on a volume shared by all processes (.npz)")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=100, help="number of digits per step, over all processes")
    parser.add_argument(
        "--hold", type=int, metavar="EPOCH", help="on the first start, wait after this epoch until a pod is deleted"
    )
    arguments = parser.parse_args()
    if arguments.batch % int(os.environ["WORLD_SIZE"]):
        parser.error(f"--batch: must be a multiple of the number of processes, {os.environ['WORLD_SIZE']}")
    return arguments


def load_shuffled_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's digits, 8 x 8 pixels, in the same random order in all processes."""
    images, answers = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return (images[order] / 16).astype(np.float32), answers[order]


def train(arguments: argparse.Namespace, images: np.ndarray, answers: np.ndarray) -> tuple[State, bool]:
    """Train. Return the state, and whether SIGTERM ended the training early."""
    mesh = Mesh(np.asarray(jax.devices()), ("batch",))
    shards, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    saved, epoch = resume(arguments.checkpoint, create_initial_state(images.shape[1]))
    first_start = epoch == 0
    state = jax.device_put(saved, everywhere)
    step = epoch * (len(images) // arguments.batch)
    while epoch < arguments.epochs:
        order = np.random.default_rng(epoch).permutation(len(images))
        for start in range(0, len(images) - arguments.batch + 1, arguments.batch):
            chosen = np.array_split(order[start : start + arguments.batch], jax.process_count())[jax.process_index()]
            batch = (jax.make_array_from_process_local_data(shards, part[chosen]) for part in (images, answers))
            state, loss = train_step(state, *batch)
            step += 1
            if multihost_utils.reached_preemption_sync_point(step):
                print_once(f"SIGTERM: ended after step {step}; {epoch} epochs are saved")
                return state, True
        epoch += 1
        save(arguments.checkpoint, state, epoch)
        print_once(f"epoch {epoch}: loss {float(loss):.4f}")
        while epoch == arguments.hold and first_start:
            time.sleep(0.1)
    return state, False


def create_initial_state(pixels: int) -> State:
    """Return the initial state, the same in all processes."""
    random = np.random.default_rng(1)
    sizes = {"hidden": (pixels, HIDDEN), "hidden bias": (HIDDEN,), "output": (HIDDEN, CLASSES), "output bias": (CLASSES,)}
    weights = {name: (random.standard_normal(size) * (len(size) - 1) / 8).astype(np.float32) for name, size in sizes.items()}
    return {**weights, **{f"velocity of {name}": np.zeros_like(value) for name, value in weights.items()}}


def get_weights(state: State) -> State:
    return {name: value for name, value in state.items() if not name.startswith("velocity of ")}


def compute_scores(weights: State, images: Any) -> Any:
    hidden = jax.nn.relu(images @ weights["hidden"] + weights["hidden bias"])
    return hidden @ weights["output"] + weights["output bias"]


@jax.jit
def train_step(state: State, images: jax.Array, answers: jax.Array) -> tuple[State, jax.Array]:
    """Return the state after one gradient descent step on a batch, and the loss before the step."""

    def compute_loss(weights: State) -> jax.Array:
        logits = jax.nn.log_softmax(compute_scores(weights, images))
        return -jnp.take_along_axis(logits, answers[:, None], axis=1).mean()

    weights = get_weights(state)
    loss, gradients = jax.value_and_grad(compute_loss)(weights)
    velocities = {name: MOMENTUM * state[f"velocity of {name}"] - 0.1 * gradient for name, gradient in gradients.items()}
    after = {name: weight + velocities[name] for name, weight in weights.items()}
    return {**after, **{f"velocity of {name}": value for name, value in velocities.items()}}, loss


def save(file: Path, state: State, epoch: int) -> None:
    """Save a checkpoint atomically from the first process, while the other processes wait."""
    if jax.process_index() == 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_suffix(".new.npz")
        np.savez(beside, epoch=epoch, **{name: np.asarray(value) for name, value in state.items()})
        beside.replace(file)
    multihost_utils.sync_global_devices(f"saved epoch {epoch}")


def resume(file: Path, state: State) -> tuple[State, int]:
    """Return the checkpoint's state and number of completed epochs, or the given state and 0 without a checkpoint. The
    first process reads the checkpoint and broadcasts both.
    """
    epoch = 0
    if jax.process_index() == 0 and file.exists():
        with np.load(file) as saved:
            state, epoch = {name: saved[name] for name in state}, int(saved["epoch"])
        print_once(f"resuming from {file}: {epoch} epochs were completed")
    state, epoch = multihost_utils.broadcast_one_to_all((state, epoch))
    return state, int(epoch)


def hash_weights(state: State) -> str:
    """Return a digest that is equal only for bit-identical weights."""
    hasher = hashlib.sha256()
    for name, value in sorted(state.items()):
        hasher.update(name.encode() + np.asarray(value).tobytes())
    return hasher.hexdigest()


def print_once(line: str) -> None:
    if jax.process_index() == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
