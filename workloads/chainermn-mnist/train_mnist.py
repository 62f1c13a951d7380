"""Train ChainerMN's MNIST example on all ranks: `mpiexec -n 8 -N 2 python3 train_mnist.py`.

A perceptron learns scikit-learn's 1797 handwritten digits. Each rank trains on a shard; gradients are averaged over all ranks
at every step. With `-g`, each rank uses one GPU. The exit code is 0 only if all ranks end with the same weights and the model
recognizes unseen digits. If one rank raises an exception, all ranks end at once.
"""

import argparse
import hashlib
import importlib.util
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per rank, because ranks share the cores

import chainer
import chainer.functions as F
import chainer.links as L
import chainermn
import numpy as np
from chainer import training
from chainer.training import extensions
from chainermn import global_except_hook

DIGITS = Path(__file__).with_name("digits.csv.gz")
"""Data set: each line has 64 pixels (0 to 16) and the digit. If it is missing, the program uses scikit-learn's copy."""
TRAINING = 1500
ENOUGH = 0.9
"""Required accuracy on unseen digits."""


class Perceptron(chainer.Chain):
    def __init__(self, units: int) -> None:
        super().__init__()
        with self.init_scope():
            self.first, self.second, self.last = L.Linear(None, units), L.Linear(None, units), L.Linear(None, 10)

    def forward(self, pixels: Any) -> Any:
        return self.last(F.relu(self.second(F.relu(self.first(pixels)))))


def main() -> int:
    arguments = parse_arguments()
    global_except_hook.add_hook()  # otherwise the other ranks would wait for a failed rank
    np.random.seed(0)  # same initial weights in every run
    ranks = chainermn.create_communicator(arguments.communicator)
    model = L.Classifier(Perceptron(arguments.units))
    if arguments.gpu:
        chainer.cuda.get_device_from_id(ranks.intra_rank).use()
        model.to_gpu()
    started = time.monotonic()
    accuracy = train(ranks, model, arguments)
    digests, hosts = ranks.gather_obj(hash_weights(model)), ranks.gather_obj(socket.gethostname())
    verdict = None
    if ranks.rank == 0:
        equal = "equal" if len(set(digests)) == 1 else "DIFFERENT"
        verdict = 0 if equal == "equal" and accuracy > ENOUGH else 1
        print(
            f"{ranks.size} ranks on {len(set(hosts))} hosts, {arguments.epochs} epochs in {time.monotonic() - started:.1f} s: "
            f"accuracy {accuracy:.3f}, weights {equal} on all ranks",
            flush=True,
        )
    return int(ranks.bcast_obj(verdict))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-g", "--gpu", action="store_true", help="train on GPUs, one per rank")
    parser.add_argument("--communicator", help="default: pure_nccl with -g, otherwise naive, which works on any machine")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=15, help="number of digits per rank and step")
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--fail", type=int, metavar="RANK", help="raise an exception on this rank after the second epoch")
    arguments = parser.parse_args()
    arguments.communicator = arguments.communicator or ("pure_nccl" if arguments.gpu else "naive")
    arguments.gpu = arguments.gpu or arguments.communicator == "pure_nccl"
    return arguments


def train(ranks: Any, model: Any, arguments: argparse.Namespace) -> float:
    """Train and return the final accuracy on unseen digits."""
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), ranks)
    optimizer.setup(model)
    training_set, unseen = load_digits() if ranks.rank == 0 else (None, None)
    training_set = chainermn.scatter_dataset(training_set, ranks, shuffle=True, seed=0)
    unseen = chainermn.scatter_dataset(unseen, ranks)
    training_batches = chainer.iterators.SerialIterator(training_set, arguments.batch)
    unseen_batches = chainer.iterators.SerialIterator(unseen, arguments.batch, repeat=False, shuffle=False)
    device = ranks.intra_rank if arguments.gpu else -1
    updater = training.StandardUpdater(training_batches, optimizer, device=device)
    trainer = training.Trainer(updater, (arguments.epochs, "epoch"), out=str(Path.home()))
    trainer.extend(chainermn.create_multi_node_evaluator(extensions.Evaluator(unseen_batches, model, device=device), ranks))
    log = extensions.LogReport(log_name=None)
    trainer.extend(log)
    if ranks.rank == 0:
        print("epoch      loss  accuracy  loss of unseen  accuracy of unseen", flush=True)
        trainer.extend(make_progress_printer(log), trigger=(1, "epoch"))
    if ranks.rank == arguments.fail:
        trainer.extend(abort_on_error, trigger=(2, "epoch"))
    trainer.run()
    return float(log.log[-1]["validation/main/accuracy"])


def make_progress_printer(log: Any) -> Any:
    @training.make_extension(priority=extensions.LogReport.priority - 1)
    def print_progress(trainer: Any) -> None:
        entry = log.log[-1]
        loss, accuracy = entry["main/loss"], entry["main/accuracy"]
        unseen = f"{entry['validation/main/loss']:14.4f}  {entry['validation/main/accuracy']:18.4f}"
        print(f"{entry['epoch']:5}  {loss:8.4f}  {accuracy:8.4f}  {unseen}", flush=True)

    return print_progress


def abort_on_error(trainer: Any) -> None:
    raise RuntimeError(f"requested by --fail, on {socket.gethostname()}")


def load_digits() -> tuple[Any, Any]:
    """Return the training set and the unseen digits."""
    lines = np.loadtxt(DIGITS if DIGITS.exists() else _write_scikit_learn_digits(), delimiter=",")
    lines = lines[np.random.RandomState(0).permutation(len(lines))]
    pixels, answers = (lines[:, :-1] / 16).astype(np.float32), lines[:, -1].astype(np.int32)
    both = chainer.datasets.TupleDataset(pixels, answers)
    return chainer.datasets.split_dataset(both, TRAINING)


def _write_scikit_learn_digits() -> Path:
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise SystemExit(f"{DIGITS}: file not found, and scikit-learn, which has a copy, is not installed. Provide one of them")
    return Path(package.origin).parent / "datasets" / "data" / DIGITS.name


def hash_weights(model: Any) -> str:
    """Return a digest that is equal only for bit-identical weights."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.namedparams()):
        digest.update(name.encode() + chainer.cuda.to_cpu(parameter.array).tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
