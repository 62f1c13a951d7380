"""Train with Horovod and TensorFlow: `horovodrun -np 4 -H ... python3 train.py --data s3://BUCKET/KEY --folder /shared/run`.

A perceptron learns handwritten digits. Each rank trains on a shard; gradients are averaged over all ranks at every step. Rank
0 downloads the data to the volume once. After each epoch, it writes TensorBoard logs and a checkpoint, from which the next
start resumes. The exit code is 0 only if all ranks end with the same weights and the model recognizes unseen digits.
"""

import argparse
import hashlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import boto3
import botocore.exceptions
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

TRAINING = 1500
ENOUGH = 0.9
"""Required accuracy on unseen digits."""


def main() -> int:
    arguments = parse_arguments()
    hvd.init()
    pin_gpu_by_local_rank()
    started = time.monotonic()
    download_data(arguments.data, arguments.folder / "data")
    epochs_done, accuracy, digest = train(arguments, arguments.folder / "data" / Path(arguments.data).name)
    digests, hosts = hvd.allgather_object(digest), hvd.allgather_object(socket.gethostname())
    equal = "equal" if len(set(digests)) == 1 else "DIFFERENT"
    print_once(
        f"{len(hosts)} ranks on {len(set(hosts))} hosts, {epochs_done} epochs, {time.monotonic() - started:.1f} s: "
        f"accuracy {accuracy:.3f}, weights {equal} on all ranks"
    )
    return 0 if equal == "equal" and accuracy > ENOUGH else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", required=True, help="s3://BUCKET/KEY of the data set; each line has 64 pixels (0 to 16) and the digit"
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder on a volume shared by all ranks")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=15, help="number of digits per rank and step")
    parser.add_argument("--hold", type=int, metavar="EPOCH", help="on the first start, wait after this epoch until killed")
    return parser.parse_args()


def pin_gpu_by_local_rank() -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    else:  # one thread per rank, because ranks share the cores
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


# --- data --------------------------------------------------------------------------------------------------------------


def download_data(address: str, folder: Path) -> None:
    """On rank 0, download the data set to the volume atomically, unless it exists. If that fails, all ranks exit."""
    problem = None
    if hvd.rank() == 0 and not (folder / Path(address).name).exists():
        bucket, _, key = address.removeprefix("s3://").partition("/")
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f"{Path(address).name}.part"
        try:
            boto3.client("s3").download_file(bucket, key, str(beside))
            beside.replace(folder / Path(address).name)
            print_once(f"fetched {address}")
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            problem = (
                f"{address}: cannot be read: {error}. Check the address, and list the bucket in platform.jobPolicies of the stack"
            )
    if problem := hvd.broadcast_object(problem, root_rank=0):
        print_once(problem)
        raise SystemExit(1)


def load_digits(file: Path) -> "tuple[Any, Any]":
    """Return pixels and labels in the same random order on all ranks."""
    lines = np.loadtxt(file, delimiter=",")
    lines = lines[np.random.RandomState(0).permutation(len(lines))]
    return (lines[:, :-1] / 16).astype(np.float32), lines[:, -1].astype(np.int32)


# --- training ----------------------------------------------------------------------------------------------------------


def train(arguments: argparse.Namespace, file: Path) -> "tuple[int, float, str]":
    """Train, and return the total number of epochs, the accuracy and the digest of the weights."""
    tf.random.set_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(100, "relu", input_shape=(64,)), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    done = tf.Variable(0, dtype=tf.int64)
    saved = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=optimizer, done=done), str(arguments.folder / "checkpoints"), max_to_keep=2
    )
    first_epoch = resume(saved, [*model.variables, *optimizer.variables, done], done)
    pixels, answers = load_digits(file)
    step = make_training_step(model, optimizer)
    log = tf.summary.create_file_writer(str(arguments.folder / "logs")) if hvd.rank() == 0 else None
    accuracy = compute_accuracy(model, pixels, answers)
    for epoch in range(first_epoch + 1, arguments.epochs + 1):
        loss = [float(step(pixels[chosen], answers[chosen])) for chosen in list_batches(epoch, arguments.batch)][-1]
        accuracy = compute_accuracy(model, pixels, answers)
        done.assign(epoch)
        if log is not None:
            saved.save(epoch)
            with log.as_default(epoch):
                tf.summary.scalar("loss", loss)
                tf.summary.scalar("accuracy", accuracy)
            log.flush()
        print_once(f"epoch {epoch}: loss {loss:.4f}, accuracy on unseen digits {accuracy:.4f}")
        while epoch == arguments.hold and first_epoch == 0:
            time.sleep(0.1)
    return int(done), accuracy, hash_weights(model)


def resume(saved: Any, variables: "list[Any]", done: Any) -> int:
    """Restore rank 0's checkpoint on all ranks, and return the number of completed epochs."""
    if hvd.rank() == 0 and saved.restore_or_initialize():
        print_once(f"resuming from {saved.latest_checkpoint}: {int(done)} epochs were completed")
    hvd.broadcast_variables(variables, root_rank=0)
    return int(done)


def make_training_step(model: Any, optimizer: Any) -> Any:
    """Return the training step, which averages gradients over all ranks and returns this rank's loss."""
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(pixels: Any, answers: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(answers, model(pixels, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905  not in Python 3.8
        return loss

    return step


def list_batches(epoch: int, size: int) -> "Iterator[Any]":
    """Yield this rank's batches, shuffled per epoch. All ranks get the same number of batches."""
    own = np.random.RandomState(epoch).permutation(TRAINING)[hvd.rank() :: hvd.size()]
    for number in range(TRAINING // hvd.size() // size):
        yield own[number * size : (number + 1) * size]


def compute_accuracy(model: Any, pixels: Any, answers: Any) -> float:
    return float(np.mean(np.argmax(model(pixels[TRAINING:]), axis=1) == answers[TRAINING:]))


def hash_weights(model: Any) -> str:
    """Return a digest that is equal only for bit-identical weights."""
    digest = hashlib.sha256()
    for variable in model.variables:
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()


def print_once(line: str) -> None:
    if hvd.rank() == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
