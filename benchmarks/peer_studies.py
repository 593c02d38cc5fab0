"""One study of a peer: runs of FedAvg on Fashion-MNIST in pfl, FLGo, fluke, NVFlare or a plain loop.

Called by ``study.py --peers`` with the interpreter in which the peers are installed; beside them PyTorch and NumPy are
enough. The federation lies ready in one file of arrays: the MLP 784-64-30-10, 100 clients of 600 examples, 5 a round,
two epochs of SGD in batches of 64, and an evaluation on the test set in every round. Each peer is used as its
documentation says, with everything switched off that the others do not do.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLIENTS, COHORT, EPOCHS, BATCH, RATE = 100, 5, 2, 64, 0.005


def network():
    """The model of all peers."""
    layers = [nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, 10)]
    return nn.Sequential(*layers)


def accuracy(net, x, y):
    """On the test set, in batches of 1,000."""
    with torch.inference_mode():
        right = sum(
            int((net(part).argmax(1) == true).sum()) for part, true in zip(x.split(1000), y.split(1000), strict=True)
        )
    return right / len(y)


def loop(held, rounds, seed):
    """What most research code does."""
    from engine import FMNIST, plain_loop

    draws, net = np.random.default_rng(seed), network()
    x, y = held["x_train"], held["y_train"]
    for _ in range(rounds):
        chosen = draws.choice(CLIENTS, COHORT, replace=False)
        trained = [one.state_dict() for one in plain_loop(net, x, y, list(held["parts"][chosen]), FMNIST)()]
        net.load_state_dict({key: torch.stack([one[key] for one in trained]).mean(0) for key in trained[0]})
        found = accuracy(net, torch.from_numpy(held["x_test"]), torch.from_numpy(held["y_test"]))
    return found


def pfl(held, rounds, seed):
    """Apple's simulator: a backend in this process, evaluation by its callback."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.central_evaluation import CentralEvaluationCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Weighted
    from pfl.model.pytorch import PyTorchModel

    class Measured(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x):
            return self.net(x)

        def loss(self, x, y, eval=False):
            return nn.functional.cross_entropy(self(x), y)

        @torch.no_grad()
        def metrics(self, x, y, eval=True):
            out = self(x)
            total = nn.functional.cross_entropy(out, y, reduction="sum").item()
            right = float((out.argmax(1) == y).sum())
            return {"loss": Weighted(total, len(y)), "accuracy": Weighted(right, len(y))}

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (pfl draws from it)
    x, y = torch.from_numpy(held["x_train"]), torch.from_numpy(held["y_train"])
    own = [Dataset([x[part], y[part]], user_id=str(k)) for k, part in enumerate(held["parts"])]
    users = FederatedDataset(own.__getitem__, get_user_sampler("minimize_reuse", list(range(CLIENTS))))
    test = Dataset([torch.from_numpy(held["x_test"]), torch.from_numpy(held["y_test"])])
    net = Measured()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(rounds, rounds + 1, COHORT, 0),
        SimulatedBackend(users, users),
        model,
        NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=EPOCHS, local_learning_rate=RATE),
        NNEvalHyperParams(1000),
        [CentralEvaluationCallback(test, NNEvalHyperParams(1000))],
    )
    return accuracy(net, *test.raw_data)


FLGO_CORE = """
from flgo.benchmark.toolkits.cv.classification import FromDatasetGenerator, FromDatasetPipe, GeneralCalculator
from peer_studies import arrays

train_data, test_data = arrays("train"), arrays("test")

class TaskGenerator(FromDatasetGenerator):
    def __init__(self):
        super().__init__("flgo_images", train_data=train_data, test_data=test_data)

class TaskPipe(FromDatasetPipe):
    class TaskDataset(FromDatasetPipe.TaskDataset):
        def __getitems__(self, at):  # PyTorch 2.13 refuses subsets without it
            return self.dataset.__getitems__([self.indices[i] for i in at])

    def __init__(self, task_path):
        super().__init__(task_path, train_data=train_data, test_data=test_data)

TaskCalculator = GeneralCalculator
"""


class Rows(torch.utils.data.Dataset):
    """Images and labels; a whole batch at a time where the loader asks so."""

    def __init__(self, x, y):
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, at):
        return self.x[at], self.y[at]

    def __getitems__(self, at):
        return list(zip(self.x[at], self.y[at], strict=True))


def arrays(part):
    """What FLGo's benchmark holds."""
    held = np.load(os.environ["PEER_DATA"])
    return Rows(held[f"x_{part}"], held[f"y_{part}"])


def flgo(held, rounds, seed):
    """FLGo with its own FedAvg, logger and loaders; its task is written to a folder first, as it needs."""
    import flgo as peer
    import flgo.algorithm.fedavg as fedavg
    from flgo.benchmark.partition import BasicPartitioner
    from flgo.experiment.logger.simple_logger import SimpleLogger

    class Given(BasicPartitioner):
        num_clients = CLIENTS

        def __call__(self, data):
            return [part.tolist() for part in held["parts"]]

    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x):
            return self.net(x)

    package = Path("flgo_images")
    if not package.exists():
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "core.py").write_text(FLGO_CORE)
        sys.path.insert(0, str(Path.cwd()))
        config = {"benchmark": {"name": "flgo_images"}, "partitioner": Given()}
        peer.gen_task(config, task_path="task")
    options = {
        "num_rounds": rounds,
        "num_epochs": EPOCHS,
        "batch_size": BATCH,
        "learning_rate": RATE,
        "proportion": COHORT / CLIENTS,
        "train_holdout": 0.0,
        "test_batch_size": 1000,
        "no_log_console": True,
        "seed": seed,
    }
    runner = peer.init("task", fedavg, options, peer.convert_model(Images), SimpleLogger)
    runner.run()
    return accuracy(runner.model, torch.from_numpy(held["x_test"]), torch.from_numpy(held["y_test"]))


def fluke(held, rounds, seed):
    """fluke's FedAvg with clients and server made from its own classes, and its evaluator after every round."""
    with suppress(
        RuntimeError
    ):  # a torchvision whose compiled operators do not fit this PyTorch is imported all the same
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from fluke import FlukeENV
    from fluke.algorithms.fedavg import FedAVG
    from fluke.client import Client
    from fluke.config import OptimizerConfigurator
    from fluke.data import FastDataLoader
    from fluke.evaluation import ClassificationEval
    from fluke.server import Server

    env = FlukeENV()
    env.set_seed(seed)
    env.set_evaluator(ClassificationEval(eval_every=1, n_classes=10))
    env.set_eval_cfg(server=True, pre_fit=False, post_fit=False, locals=False)
    x, y = torch.from_numpy(held["x_train"]), torch.from_numpy(held["y_train"])
    rule, entropy = OptimizerConfigurator({"name": "SGD", "lr": RATE}), nn.CrossEntropyLoss()
    clients = [
        Client(
            k,
            FastDataLoader(x[part], y[part], num_labels=10, batch_size=BATCH, shuffle=True, skip_singleton=False),
            None,
            rule,
            entropy,
            EPOCHS,
        )
        for k, part in enumerate(held["parts"])
    ]
    x, y = torch.from_numpy(held["x_test"]), torch.from_numpy(held["y_test"])
    server = Server(network(), FastDataLoader(x, y, num_labels=10, batch_size=1000), clients)
    FedAVG(CLIENTS, None, {}, clients, server).run(rounds, COHORT / CLIENTS)
    return accuracy(server.model, x, y)


NVFLARE_SITE = """
import os
import sys
import nvflare.client as flare
import numpy as np
import torch
from torch import nn

sys.path.append(os.environ["PEER_CODE"])
from peer_studies import BATCH, EPOCHS, RATE, network

flare.init()
torch.set_num_threads(1)
held = np.load(os.environ["PEER_DATA"])
part = held["parts"][int(flare.get_site_name().rpartition("-")[2])]
rows = torch.utils.data.TensorDataset(*(torch.from_numpy(held[name][part]) for name in ("x_train", "y_train")))
loader = torch.utils.data.DataLoader(rows, BATCH, shuffle=True)
net = network()
while flare.is_running():
    received = flare.receive()
    net.load_state_dict({name: torch.as_tensor(value) for name, value in received.params.items()})
    optimiser = torch.optim.SGD(net.parameters(), RATE)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()
    flare.send(flare.FLModel(params={name: value.numpy() for name, value in net.state_dict().items()}))
"""


def nvflare(held, rounds, seed):
    """NVFlare's simulator and FedAvg; as many sites as a cohort has, which all train: it has a process for each."""
    from nvflare.app_common.workflows.fedavg import FedAvg
    from nvflare.job_config.api import FedJob
    from nvflare.job_config.script_runner import FrameworkType, ScriptRunner

    torch.manual_seed(seed)
    Path("site.py").write_text(NVFLARE_SITE)
    model = {name: value.tolist() for name, value in network().state_dict().items()}
    job = FedJob(name=f"fedavg-{seed}", min_clients=COHORT)
    job.to_server(FedAvg(num_clients=COHORT, num_rounds=rounds, model=model, persistor_id=""))
    job.to_clients(ScriptRunner("site.py", framework=FrameworkType.NUMPY))
    job.simulator_run(f"workspace-{seed}", n_clients=COHORT, threads=COHORT, log_config="concise")
    return float("nan")  # its sites evaluate, where an app does


WAYS = {"loop": loop, "pfl": pfl, "FLGo": flgo, "fluke": fluke, "NVFlare": nvflare}


def main():
    """Peer, file of arrays, rounds, runs."""
    name, data, rounds, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    os.environ["PEER_DATA"] = data
    os.environ["PEER_CODE"] = str(Path(__file__).parent)
    sys.path.append(os.environ["PEER_CODE"])  # not first: a file here is called like a peer
    held = dict(np.load(data))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(name, [round(WAYS[name](held, rounds, seed), 3) for seed in range(runs)])
        os.chdir("/")


if __name__ == "__main__":
    main()
