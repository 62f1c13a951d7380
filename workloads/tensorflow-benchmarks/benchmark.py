"""Measure the training throughput of ResNet on synthetic images, with Horovod on all ranks.

`mpirun -n 16 ... python3 benchmark.py --model resnet101 --batch 64` prints each rank's images per second and the total.
"""

import argparse
import os
import socket
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import tensorflow as tf

MODELS = {"resnet50": "ResNet50", "resnet101": "ResNet101", "resnet152": "ResNet152"}
CLASSES = 1000


def main() -> int:
    arguments = parse_arguments()
    hvd.init()
    pin_gpu_by_local_rank()
    model = getattr(tf.keras.applications, MODELS[arguments.model])(
        weights=None, input_shape=(arguments.image_size, arguments.image_size, 3), classes=CLASSES, classifier_activation=None
    )
    step = make_training_step(model, arguments)
    if hvd.rank() == 0:
        size = f"{arguments.image_size} x {arguments.image_size}"
        about = f"{arguments.model}, {arguments.batch} images of {size} per rank and step"
        print(f"{about}; {hvd.size()} ranks; {arguments.steps} steps after {arguments.warm_up} to warm up", flush=True)
    step()
    hvd.broadcast_variables(model.variables, root_rank=0)
    for _ in range(arguments.warm_up):
        step()
    started = time.monotonic()
    for number in range(1, arguments.steps + 1):
        loss = step()
        if hvd.rank() == 0 and number % arguments.every == 0:
            rate = arguments.batch * number / (time.monotonic() - started)
            print(f"step {number}: {rate:.2f} images/sec on rank 0, loss {float(loss):.3f}", flush=True)
    rate = arguments.batch * arguments.steps / (time.monotonic() - started)
    return print_rates(rate)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet101")
    parser.add_argument("--batch", type=int, default=64, help="number of images per rank and step")
    parser.add_argument("--image-size", type=int, default=224, help="width and height of the images in pixels, at least 32")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10, help="steps before measuring")
    parser.add_argument("--every", type=int, default=10, help="number of steps between progress messages of rank 0")
    return parser.parse_args()


def pin_gpu_by_local_rank() -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    else:  # one thread per rank, because ranks share the cores
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def make_training_step(model: Any, arguments: argparse.Namespace) -> Any:
    """Return a training step on constant images, so the benchmark does not measure data loading."""
    images = tf.random.uniform((arguments.batch, arguments.image_size, arguments.image_size, 3))
    answers = tf.random.uniform((arguments.batch,), 0, CLASSES, tf.int64)
    optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(answers, model(images, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905  not in Python 3.8
        return loss

    return step


def print_rates(rate: float) -> int:
    """Print each rank's rate and the total, and return the exit code, which is the same on all ranks."""
    rates = hvd.allgather_object((hvd.rank(), socket.gethostname(), rate))
    if hvd.rank() == 0:
        for rank, host, each in sorted(rates):
            print(f"rank {rank} on {host}: {each:.2f} images/sec", flush=True)
        print(f"total images/sec: {sum(each for *_, each in rates):.2f}", flush=True)
    return 0 if all(each > 0 for *_, each in rates) else 1


if __name__ == "__main__":
    sys.exit(main())
