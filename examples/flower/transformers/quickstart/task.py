"""The task: from which module of Python's library a sentence of its documentation is, read byte by byte.

A small transformer, randomly initialised and frozen, with LoRA adapters: only the adapters and the classifier travel.
"""

import importlib
import inspect
from functools import lru_cache

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

MODULES = ("argparse", "asyncio", "collections", "decimal", "email.message", "logging", "pathlib", "statistics")
LENGTH = 48


def build():
    """The model: a frozen encoder with adapters beside its attention, and a classifier that trains."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=256,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=len(MODULES),
    )
    adapters = LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value"])
    return get_peft_model(BertForSequenceClassification(config), adapters)


def travelling(model) -> dict[str, torch.Tensor]:
    """The part of the state that leaves a node."""
    return {name: value for name, value in model.state_dict().items() if "lora_" in name or "modules_to_save" in name}


@lru_cache(maxsize=1)
def sentences() -> list[tuple[str, int]]:
    """Lines of documentation with the number of their module."""
    found = []
    for label, name in enumerate(MODULES):
        module = importlib.import_module(name)
        members = [module, *(member for _, member in inspect.getmembers(module, inspect.isclass))]
        texts = [inspect.getdoc(member) or "" for member in members]
        lines = dict.fromkeys(line.strip() for text in texts for line in text.splitlines() if len(line.strip()) > 20)
        found += [(line, label) for line in list(lines)[:60]]
    return found


@lru_cache(maxsize=2)
def load_data(partition_id: int, num_partitions: int):
    """(inputs by name, labels) of one node: mostly of two or three modules."""
    order = np.array_split(np.arange(len(sentences())), 2 * num_partitions)
    own = np.concatenate([order[partition_id], order[(partition_id + 3) % (2 * num_partitions)]])
    rows = [sentences()[row] for row in own]
    ids = torch.zeros(len(rows), LENGTH, dtype=torch.int64)
    for row, (text, _) in enumerate(rows):
        data = text.encode()[:LENGTH]
        ids[row, : len(data)] = torch.tensor(list(data))
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}, torch.tensor([label for _, label in rows])


def train(model, inputs, labels, epochs: int, lr: float, seed: int) -> tuple[float, int]:
    """Adam on what trains; the mean batch loss and the number of steps."""
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    generator, losses = torch.Generator().manual_seed(seed), []
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(labels), generator=generator).split(16):
            optimiser.zero_grad()
            found = model(**{name: value[batch] for name, value in inputs.items()}, labels=labels[batch])
            found.loss.backward()
            optimiser.step()
            losses.append(found.loss.item())
    return float(np.mean(losses)), len(losses)
