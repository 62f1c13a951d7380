"""Horovod on TensorFlow on all ranks: `horovodrun -np 4 -H ... python3 train.py --data s3://BUCKET/KEY --folder /shared/run`.

A perceptron learns handwritten digits: each rank a part of them, with gradients averaged over all ranks at every step. On the
volume lie the data, which rank 0 fetches once, rank 0's checkpoint of each epoch, from which the next start goes on, and logs for
TensorBoard. Ends with another exit code than 0 unless all ranks have the same weights in the end, and know digits that they have
not seen.
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

TAUGHT = 1500
ENOUGH = 0.9
"""Accuracy on digits that were not taught."""


def main() -> int:
    arguments = understood()
    hvd.init()
    use_own_device()
    began = time.monotonic()
    fetched(arguments.data, arguments.folder / "data")
    epochs_done, accuracy, digest = train(arguments, arguments.folder / "data" / Path(arguments.data).name)
    digests, hosts = hvd.allgather_object(digest), hvd.allgather_object(socket.gethostname())
    equal = "equal" if len(set(digests)) == 1 else "DIFFERENT"
    tell(
        f"{len(hosts)} ranks on {len(set(hosts))} hosts, {epochs_done} epochs, {time.monotonic() - began:.1f} s: "
        f"accuracy {accuracy:.3f}, weights {equal} on all ranks"
    )
    return 0 if equal == "equal" and accuracy > ENOUGH else 1


def understood() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="s3://BUCKET/KEY of digits: 64 pixels of 0 to 16 and the digit, a line")
    parser.add_argument("--folder", type=Path, required=True, help="on a volume that all ranks see")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=15, help="digits a rank takes a step")
    parser.add_argument("--hold", type=int, metavar="EPOCH", help="wait there at the first start, to be killed")
    return parser.parse_args()


def use_own_device() -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    else:  # ranks share the cores
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


# --- data --------------------------------------------------------------------------------------------------------------


def fetched(address: str, folder: Path) -> None:
    """The data set on the volume; rank 0 fetches it, whole or not at all. Ends all ranks where it cannot."""
    problem = None
    if hvd.rank() == 0 and not (folder / Path(address).name).exists():
        bucket, _, key = address.removeprefix("s3://").partition("/")
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f"{Path(address).name}.part"
        try:
            boto3.client("s3").download_file(bucket, key, str(beside))
            beside.replace(folder / Path(address).name)
            tell(f"fetched {address}")
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            problem = (
                f"{address} cannot be read: {error}; look at the address, and at the Secret with AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL"
            )
    if problem := hvd.broadcast_object(problem, root_rank=0):
        tell(problem)
        raise SystemExit(1)


def digits(file: Path) -> "tuple[Any, Any]":
    """Pixels and answers, in the same random order on all ranks."""
    lines = np.loadtxt(file, delimiter=",")
    lines = lines[np.random.RandomState(0).permutation(len(lines))]
    return (lines[:, :-1] / 16).astype(np.float32), lines[:, -1].astype(np.int32)


# --- training ----------------------------------------------------------------------------------------------------------


def train(arguments: argparse.Namespace, file: Path) -> "tuple[int, float, str]":
    """Epochs that are done in all, accuracy, and the weights' digest."""
    tf.random.set_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(100, "relu", input_shape=(64,)), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    done = tf.Variable(0, dtype=tf.int64)
    saved = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, optimizer=optimizer, done=done), str(arguments.folder / "checkpoints"), max_to_keep=2
    )
    began_with = resumed(saved, [*model.variables, *optimizer.variables, done], done)
    pixels, answers = digits(file)
    step = learner(model, optimizer)
    log = tf.summary.create_file_writer(str(arguments.folder / "logs")) if hvd.rank() == 0 else None
    accuracy = accuracy_of(model, pixels, answers)
    for epoch in range(began_with + 1, arguments.epochs + 1):
        loss = [float(step(pixels[chosen], answers[chosen])) for chosen in batches(epoch, arguments.batch)][-1]
        accuracy = accuracy_of(model, pixels, answers)
        done.assign(epoch)
        if log is not None:
            saved.save(epoch)
            with log.as_default(epoch):
                tf.summary.scalar("loss", loss)
                tf.summary.scalar("accuracy", accuracy)
            log.flush()
        tell(f"epoch {epoch}: loss {loss:.4f}, accuracy on unseen digits {accuracy:.4f}")
        while epoch == arguments.hold and began_with == 0:
            time.sleep(0.1)
    return int(done), accuracy, weights(model)


def resumed(saved: Any, variables: "list[Any]", done: Any) -> int:
    """Epochs that are done; what rank 0 finds counts for all."""
    if hvd.rank() == 0 and saved.restore_or_initialize():
        tell(f"goes on from {saved.latest_checkpoint}: {int(done)} epochs are done")
    hvd.broadcast_variables(variables, root_rank=0)
    return int(done)


def learner(model: Any, optimizer: Any) -> Any:
    """One step: gradients averaged over all ranks. Its result is the loss here."""
    count = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(pixels: Any, answers: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = count(answers, model(pixels, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905  Python 3.8 too
        return loss

    return step


def batches(epoch: int, size: int) -> "Iterator[Any]":
    """What this rank takes, as many on each, in another order in each epoch."""
    own = np.random.RandomState(epoch).permutation(TAUGHT)[hvd.rank() :: hvd.size()]
    for number in range(TAUGHT // hvd.size() // size):
        yield own[number * size : (number + 1) * size]


def accuracy_of(model: Any, pixels: Any, answers: Any) -> float:
    return float(np.mean(np.argmax(model(pixels[TAUGHT:]), axis=1) == answers[TAUGHT:]))


def weights(model: Any) -> str:
    """The same for the same weights, to the last bit."""
    together = hashlib.sha256()
    for variable in model.variables:
        together.update(variable.numpy().tobytes())
    return together.hexdigest()


def tell(line: str) -> None:
    if hvd.rank() == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
