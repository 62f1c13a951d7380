"""How many images a cluster trains on a second: ResNet on images that are made up, with Horovod, on all ranks.

`mpirun -n 16 ... python3 benchmark.py --model resnet101 --batch 64`. Every rank prints its images/s, rank 0 the total of all.
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
    arguments = understood()
    hvd.init()
    use_own_device()
    model = getattr(tf.keras.applications, MODELS[arguments.model])(
        weights=None, input_shape=(arguments.image_size, arguments.image_size, 3), classes=CLASSES, classifier_activation=None
    )
    step = learner(model, arguments)
    if hvd.rank() == 0:
        about = f"{arguments.model}, {arguments.batch} images of {arguments.image_size} x {arguments.image_size} a rank and step"
        print(f"{about}; {hvd.size()} ranks; {arguments.steps} steps after {arguments.warm_up} to warm up", flush=True)
    step()
    hvd.broadcast_variables(model.variables, root_rank=0)
    for _ in range(arguments.warm_up):
        step()
    began = time.monotonic()
    for number in range(1, arguments.steps + 1):
        loss = step()
        if hvd.rank() == 0 and number % arguments.every == 0:
            rate = arguments.batch * number / (time.monotonic() - began)
            print(f"step {number}: {rate:.2f} images/sec on rank 0, loss {float(loss):.3f}", flush=True)
    rate = arguments.batch * arguments.steps / (time.monotonic() - began)
    return told(rate)


def understood() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet101")
    parser.add_argument("--batch", type=int, default=64, help="images a rank takes a step")
    parser.add_argument("--image-size", type=int, default=224, help="pixels of an edge, 32 at least")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10, help="steps before the clock starts")
    parser.add_argument("--every", type=int, default=10, help="steps after which rank 0 says how fast it is")
    return parser.parse_args()


def use_own_device() -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    else:  # ranks share the cores
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def learner(model: Any, arguments: argparse.Namespace) -> Any:
    """One step on images that stay the same: reading them is not measured."""
    images = tf.random.uniform((arguments.batch, arguments.image_size, arguments.image_size, 3))
    answers = tf.random.uniform((arguments.batch,), 0, CLASSES, tf.int64)
    optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    count = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = count(answers, model(images, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905  Python 3.8 too
        return loss

    return step


def told(rate: float) -> int:
    """Each rank's rate and the sum of all; every rank ends by it."""
    everywhere = hvd.allgather_object((hvd.rank(), socket.gethostname(), rate))
    if hvd.rank() == 0:
        for rank, host, each in sorted(everywhere):
            print(f"rank {rank} on {host}: {each:.2f} images/sec", flush=True)
        print(f"total images/sec: {sum(each for *_, each in everywhere):.2f}", flush=True)
    return 0 if all(each > 0 for *_, each in everywhere) else 1


if __name__ == "__main__":
    sys.exit(main())
