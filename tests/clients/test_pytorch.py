"""PyTorch clients: modules as they are, whatever they take, whatever is sent of them, whatever their labels are."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from sortition.clients import Answers, AppClient, AppReply, Received, pytorch
from sortition.core import RESOURCES, make_probe
from sortition.core.errors import InputError

GEN = torch.Generator().manual_seed(0)
IMAGES, LABELS = torch.randn(40, 1, 8, 8, generator=GEN), torch.randint(0, 3, (40,), generator=GEN)


class Viewed(nn.Module):
    """A CNN that flattens with view, as Flower's own quick-start does."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 4, 3), nn.Linear(4 * 6 * 6, 3)

    def forward(self, x):
        return self.out(functional.relu(self.conv(x)).view(-1, 4 * 6 * 6))


def arrays(model, *, only=""):
    return {n: v.detach().numpy().copy() for n, v in model.state_dict().items() if only in n}


def client(model, *examples, sent=None, **options):
    return pytorch(lambda context: (model, *examples), **options)(Received(sent or arrays(model)))


def gradient(model, loss, names):
    model.zero_grad()
    loss.backward()
    by_name = dict(model.named_parameters())
    grads = [by_name[n].grad for n in names]
    return np.concatenate([g.reshape(-1).float().numpy() for g in grads])


def test_a_module_that_takes_a_view_of_images_is_measured():
    model = Viewed()
    found = client(model, IMAGES, LABELS)
    expected = functional.cross_entropy(model(IMAGES), LABELS)
    assert found.loss() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(found.gradient(), gradient(model, expected, arrays(model)), atol=1e-6)


def test_a_module_that_takes_a_view_of_images_is_trained_by_a_rule():
    from sortition.learning import LocalRule

    result = client(Viewed(), IMAGES, LABELS, rule=LocalRule(lr=0.1, steps=2, batch=8)).train()
    assert np.linalg.norm(result.update) > 0
    assert result.output_weight.shape == (3, 144)


def test_the_received_arrays_count_and_not_those_that_were_loaded():
    model, other = Viewed(), Viewed()
    expected = functional.cross_entropy(other(IMAGES), LABELS).item()
    assert client(model, IMAGES, LABELS, sent=arrays(other)).loss() == pytest.approx(expected, rel=1e-5)


def test_parts_of_a_model_that_stay_at_home_are_kept():
    model, other = Viewed(), Viewed()
    sent = arrays(other, only="conv")
    found = client(model, IMAGES, LABELS, sent=sent)
    model.conv.load_state_dict(other.conv.state_dict())
    expected = functional.cross_entropy(model(IMAGES), LABELS)
    assert found.loss() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(found.gradient(), gradient(model, expected, sent), atol=1e-6)


def test_frozen_parameters_have_no_gradient_and_the_others_have_theirs():
    model = Viewed()
    model.conv.requires_grad_(False)
    found = client(model, IMAGES, LABELS).gradient()
    assert not found[: 4 * 9 + 4].any()
    assert np.abs(found[4 * 9 + 4 :]).max() > 0


def test_arrays_in_a_list_are_matched_by_their_order():
    model, other = Viewed(), Viewed()
    sent = {str(row): value for row, value in enumerate(arrays(other).values())}
    expected = functional.cross_entropy(other(IMAGES), LABELS).item()
    assert client(model, IMAGES, LABELS, sent=sent).loss() == pytest.approx(expected, rel=1e-5)


def test_a_model_of_other_arrays_is_refused():
    with pytest.raises(InputError, match=r"model must be one with other of shape \(2,\)"):
        client(Viewed(), IMAGES, LABELS, sent={"other": np.zeros(2)})


@pytest.mark.parametrize("kind", ["pairs", "dicts"])
def test_batches_as_a_loader_gives_them(kind):
    model = Viewed()
    batches = DataLoader(TensorDataset(IMAGES, LABELS), batch_size=16)
    if kind == "dicts":
        batches = [{"img": x, "label": y} for x, y in batches]
    found = client(model, batches)
    assert found.loss() == pytest.approx(functional.cross_entropy(model(IMAGES), LABELS).item(), rel=1e-5)
    assert found.label_counts.tolist() == np.bincount(LABELS, minlength=3).tolist()
    assert found.batch_loss() > 0


class Summed(nn.Module):
    """Takes several inputs by name."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, ids, mask):
        return self.out(ids.float() * mask)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Viewed(), "got 'Viewed'"),
        ((Viewed(),), "got 1 values"),
        ((Viewed(), IMAGES, LABELS, 3), "got 4 values"),
        ((Viewed(), TensorDataset(IMAGES, LABELS)), "got single examples in place of batches. Put the data set in a"),
    ],
    ids=["a module", "nothing else", "too much", "a data set"],
)
def test_what_is_no_module_with_examples_is_told(given, told):
    rule = r"pytorch\(load\) must be a function that gives \(module, x, y\) or \(module, batches\); "
    for ask in (lambda maker: maker.facts(None), lambda maker: maker(Received(arrays(Viewed())))):
        with pytest.raises(InputError, match=rule + told):
            ask(pytorch(lambda context: given))


def test_inputs_by_name():
    ids, mask = torch.randint(0, 9, (10, 4), generator=GEN), torch.ones(10, 4)
    y, model = torch.randint(0, 2, (10,), generator=GEN), Summed()
    expected = functional.cross_entropy(model(ids, mask), y).item()
    assert client(model, {"ids": ids, "mask": mask}, y).loss() == pytest.approx(expected, rel=1e-5)
    assert client(model, [{"ids": ids, "mask": mask, "labels": y}]).loss() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(InputError, match="a dict with its labels under label or labels"):
        client(model, [{"ids": ids, "mask": mask}])


def test_regression_has_a_size_and_no_labels():
    x, y, model = torch.randn(20, 5, generator=GEN), torch.randn(20, generator=GEN), nn.Linear(5, 1)
    made = pytorch(lambda context: (model, x, y))
    assert made.facts(None)["sizes"] == 20
    assert made(Received(arrays(model))).loss() == pytest.approx(((model(x)[:, 0] - y) ** 2).mean().item(), rel=1e-5)
    with pytest.raises(InputError, match="label_counts must be asked of labels that are whole numbers"):
        made.facts(None)["label_counts"]


def test_labels_as_masks():
    x, y, model = torch.randn(20, 5, generator=GEN), torch.randint(0, 2, (20, 3), generator=GEN), nn.Linear(5, 3)
    found = client(model, x, y)
    expected = functional.binary_cross_entropy_with_logits(model(x), y.float())
    assert found.loss() == pytest.approx(expected.item(), rel=1e-5)
    assert found.label_counts.tolist() == y.sum(0).tolist()


def test_accuracy_is_the_share_of_right_labels():
    x, model = torch.randn(20, 5, generator=GEN), nn.Linear(5, 3)
    right = (model(x).argmax(1) == LABELS[:20]).float().mean().item()
    assert client(model, x, LABELS[:20]).accuracy() == pytest.approx(right)
    with pytest.raises(InputError, match="accuracy must be asked of labels that are whole numbers"):
        client(nn.Linear(5, 1), x, torch.randn(20, 1, generator=GEN)).accuracy()


def test_a_state_that_a_client_cannot_keep_is_refused():
    from sortition.learning import LocalRule

    with pytest.raises(InputError, match=r"pytorch\(rule\).keep_state must be false"):
        pytorch(lambda context: None, LocalRule(lr=0.1, steps=1, momentum=0.9, keep_state=True))


def test_resources_are_answered_where_a_function_gives_them():
    load = lambda context: (nn.Linear(5, 3), np.zeros((4, 5), np.float32), np.zeros(4, int))  # noqa: E731
    assert "resources" not in Answers(pytorch(load)).names
    made = pytorch(load, resources=lambda context: (2.0, 0.5))
    assert "resources" in Answers(made).names
    model = {name: value.numpy() for name, value in nn.Linear(5, 3).state_dict().items()}
    assert RESOURCES.row(made(Received(model))).tolist() == [2.0, 0.5]
    with pytest.raises(InputError, match=r"pytorch\(resources\) must be a function"):
        pytorch(load)(Received(model)).resources()


def test_a_loss_of_ones_own():
    x, y, model = torch.randn(20, 5, generator=GEN), torch.randn(20, 1, generator=GEN), nn.Linear(5, 1)
    assert client(model, x, y, loss=functional.l1_loss).loss() == pytest.approx((model(x) - y).abs().mean().item())


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_other_precisions(kind):
    x, model = torch.randn(20, 5, generator=GEN).to(kind), nn.Linear(5, 3).to(kind)
    found = client(model, x, LABELS[:20])
    assert found.loss() == pytest.approx(functional.cross_entropy(model(x).float(), LABELS[:20]).item(), rel=1e-3)
    assert np.isfinite(found.gradient()).all()


def test_outputs_of_a_given_model():
    model, other = Viewed(), Viewed()
    inputs = np.zeros((2, 8, 8))
    expected = other(torch.zeros(2, 1, 8, 8)).detach().numpy()
    np.testing.assert_allclose(client(model, IMAGES, LABELS).outputs_of(arrays(other), inputs), expected, atol=1e-6)


def test_outputs_of_another_model_leave_the_received_one_in_place():
    found, other = client(Viewed(), IMAGES, LABELS), arrays(Viewed())
    loss, gradient = found.loss(), found.gradient()
    found.outputs_of(other, np.zeros((2, 8, 8)))
    with pytest.raises(RuntimeError, match="shape"):
        found.outputs_of(other, np.zeros((2, 7, 8)))
    assert found.loss() == loss
    np.testing.assert_array_equal(found.gradient(), gradient)


def test_answers_do_not_depend_on_the_order_of_the_questions():
    model, trained = arrays(Viewed()), arrays(Viewed())
    made = pytorch(lambda context: (Viewed(), IMAGES, LABELS))
    answers, received = Answers(made, signals=[make_probe(np.zeros((8, 8)), np.ones((8, 8)))]), Received(model)
    found = []
    for order in (("loss", "probe"), ("probe", "loss")):
        app = AppClient(received, lambda: AppReply(trained), made)
        found.append({name: answers.row(name, app).tolist() for name in order})
    assert found[0] == found[1]


def test_training_without_a_rule_is_refused():
    with pytest.raises(InputError, match="must be given a rule where the app has no train function"):
        client(Viewed(), IMAGES, LABELS).train()


def test_outputs_that_are_no_tensor_want_a_loss_of_ones_own():
    class Twofold(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    found = Twofold(64, 3), IMAGES.flatten(1), LABELS
    with pytest.raises(
        InputError, match=r"pytorch\(loss\) must be given where the module's outputs are no tensor; got"
    ):
        client(*found).loss()
    expected = functional.cross_entropy(found[0](found[1])[0], LABELS).item()
    assert client(*found, loss=lambda out, y: functional.cross_entropy(out[0], y)).loss() == pytest.approx(expected)


class Adapted(nn.Module):
    """A frozen layer with an adapter and a classifier, with the names that PEFT gives them."""

    def __init__(self):
        super().__init__()
        self.peft_config, self.base_layer = {"default": None}, nn.Linear(64, 4).requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(64, 4, bias=False)})
        self.modules_to_save = nn.ModuleDict({"default": nn.Linear(4, 3)})

    def forward(self, x):
        return self.modules_to_save["default"](self.base_layer(x) + self.lora_A["default"](x))


def test_adapters_are_found_under_the_names_that_peft_saves_them_with():
    model, x = Adapted(), IMAGES.flatten(1)
    names = {"lora_A.weight": "lora_A.default.weight", "weight": "modules_to_save.default.weight"}
    sent = {name: np.full_like(arrays(model)[inside], 0.1) for name, inside in names.items()}
    found = client(model, x, LABELS, sent=sent)
    assert torch.equal(model.lora_A["default"].weight, torch.full((4, 64), 0.1))
    expected = functional.cross_entropy(model(x), LABELS)
    assert found.loss() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(found.gradient(), gradient(model, expected, names.values()), atol=1e-6)
    with pytest.raises(InputError, match=r"model must be one with lora_B\.weight"):
        client(model, x, LABELS, sent={"lora_B.weight": np.zeros(3, np.float32)})


def test_labels_that_are_left_out_of_the_loss_are_not_counted():
    words = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    x, y = torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([[1, 2, -100], [4, -100, -100]])
    assert client(words, x, y).label_counts.tolist() == [0, 1, 1, 0, 1]
    for odd in (-1, 5):
        with pytest.raises(InputError, match=rf"label_counts must be asked of labels from 0 to 4; got {odd}\."):
            _ = client(words, x, torch.full((2, 3), odd)).label_counts


@pytest.mark.parametrize("counted", [(0, *range(1024, 1100)), tuple(range(1024, 1100))], ids=["some", "none"])
def test_labels_that_are_left_out_weigh_nothing(counted):
    x, y, model = torch.randn(1100, 5, generator=GEN), torch.full((1100,), -100), nn.Linear(5, 3)
    y[list(counted)] = torch.randint(0, 3, (len(counted),), generator=GEN)
    found, expected = client(model, x, y), functional.cross_entropy(model(x), y)
    assert found.loss() == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(found.gradient(), gradient(model, expected, arrays(model)), atol=1e-6)
    right = (model(x).argmax(1) == y)[list(counted)].float().mean().item()
    assert found.accuracy() == pytest.approx(right)


def test_a_mini_batch_without_a_label_that_counts_is_no_loss_of_nan():
    x, y = torch.randn(2000, 5, generator=GEN), torch.full((2000,), -100)
    y[0] = 1
    found = client(nn.Linear(5, 3), x, y)
    assert found.batch_loss() == found.loss() > 0
    assert client(nn.Linear(5, 3), x, torch.full((2000,), -100)).batch_loss() == 0


def test_outputs_that_are_no_labels_are_said_before_anybody_counts_them():
    class Autoencoder(nn.Module):
        def __init__(self, last):
            super().__init__()
            self.encode, self.decode = nn.Linear(64, 6), last

    pixels = pytorch(lambda context: (Autoencoder(nn.Linear(6, 576)), IMAGES, LABELS))
    with pytest.raises(
        InputError, match=r"classes must be given .* got 576 outputs for labels up to 2. Give pytorch\("
    ):
        pixels.facts(None)["label_counts"]
    upwards = pytorch(lambda context: (Autoencoder(nn.ConvTranspose2d(6, 1, 4)), IMAGES, LABELS))
    with pytest.raises(InputError, match=r"the last layer has no output per label; got 'ConvTranspose2d'"):
        upwards.facts(None)["label_counts"]
    given = pytorch(lambda context: (Autoencoder(nn.Linear(6, 576)), IMAGES, LABELS), classes=3)
    assert given.facts(None)["label_counts"].sum() == 40


@pytest.mark.parametrize("loss", [None, "mse", functional.mse_loss])
def test_a_rule_trains_real_targets_by_the_loss_that_is_measured(loss):
    from sortition.learning import LocalRule

    x = torch.randn(40, 4, generator=GEN)
    y = x[:, :1] * 0.3  # truncated to whole numbers these would be zeros
    model = nn.Linear(4, 1)
    rule = LocalRule(lr=0.1, steps=1, batch=40)
    node = client(model, x, y, rule=rule, loss=loss)
    before = arrays(model)
    expected = functional.mse_loss(model(x), y)
    assert node.loss() == pytest.approx(expected.item(), rel=1e-5)
    step = gradient(model, expected, before)
    np.testing.assert_allclose(node.train().update, -0.1 * step, atol=1e-6)


def test_a_rule_trains_on_several_inputs():
    from sortition.learning import LocalRule

    x = torch.randn(40, 4, generator=GEN)
    y = (x[:, 0] > 0).long()
    model = nn.Bilinear(4, 4, 2)
    node = client(model, (x, x), y, rule=LocalRule(lr=0.1, steps=3, batch=8))
    assert node.loss() == pytest.approx(functional.cross_entropy(model(x, x), y).item(), rel=1e-5)
    assert np.linalg.norm(node.train().update) > 0


def test_a_loss_that_is_not_known_or_takes_no_labels_is_refused():
    with pytest.raises(InputError, match="Unknown loss 'mze'"):
        pytorch(lambda context: None, loss="mze")
    with pytest.raises(InputError, match=r"pytorch\(loss\) must be a function \(outputs, labels\)"):
        pytorch(lambda context: None, loss=lambda outputs: outputs)
