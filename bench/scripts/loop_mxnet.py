"""A training loop written by hand in Gluon, for `bench/driver_cost.py`; knows nothing of trainload.

python loop_mxnet.py FOLDER     the batches and options stand in FOLDER; runs until SIGTERM
"""

import json
import os
import sys

FOLDER = sys.argv[1]
with open(f"{FOLDER}/options.json") as _file:
    OPTIONS = json.load(_file)
for _name in ("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"):  # read when MXNet is imported
    os.environ[_name] = str(OPTIONS["threads"])

import mxnet  # noqa: E402
import numpy  # noqa: E402
from loop_stamps import Stamps  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.gluon import nn  # noqa: E402


def build(model):
    net = nn.HybridSequential()
    if model == "lenet5":
        for channels in (6, 16):
            net.add(nn.Conv2D(channels, 5, activation="tanh"), nn.AvgPool2D(2))
        net.add(nn.Flatten(), nn.Dense(120, activation="tanh"), nn.Dense(84, activation="tanh"))
    else:
        for _ in range(3):
            net.add(nn.Dense(512, activation="relu"))
    net.add(nn.Dense(10))
    net.initialize(mxnet.init.Xavier())
    net.hybridize(static_alloc=True)
    return net


def main():
    features, labels = numpy.load(f"{FOLDER}/features.npy"), numpy.load(f"{FOLDER}/labels.npy")
    net = build(OPTIONS["model"])
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    options = {"learning_rate": 1e-4, "wd": 1e-4}
    trainer = gluon.Trainer(net.collect_params(), "adam", options, kvstore=None)
    stamps, before = Stamps(FOLDER, numpy.array), None
    for rows in stamps.batches():
        inputs, targets = nd.array(features[rows], dtype=features.dtype), nd.array(labels[rows])
        if features.dtype == numpy.uint8:
            inputs = (inputs.astype("float32") - 127.5) / 127.5
        with autograd.record():
            loss = loss_of(net(inputs), targets).mean()
        loss.backward()
        trainer.step(1)
        # The last step's loss, read while this step runs.
        if before is not None:
            stamps.keep(float(before.asscalar()))
        before = loss
    stamps.tell()


if __name__ == "__main__":
    main()
