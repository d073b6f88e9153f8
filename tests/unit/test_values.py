"""Value heads: their loss, their training step, and when their values mean something."""

import math

import pytest
import torch

from mobilerl.algorithms.losses import value_bce
from mobilerl.algorithms.values import MIN_VALUE, InstructionValue, StepValue, train_step

torch.set_num_threads(1)


def test_value_bce_golden():
    # V = 0.5, y = 1: log 2 = 0.693147.  V = sigmoid(log 3) = 0.75, y = 0: -log 0.25 = 1.386294. Mean 1.039721.
    logit = torch.tensor([0.0, math.log(3)], dtype=torch.float64, requires_grad=True)
    loss = value_bce(logit, torch.tensor([1.0, 0.0]))
    assert loss.item() == pytest.approx(1.039721, abs=1e-6)
    loss.backward()
    assert logit.grad.tolist() == pytest.approx([(0.5 - 1) / 2, 0.75 / 2])
    # A soft target: -0.5 log 0.75 - 0.5 log 0.25 = 0.836988.
    assert value_bce(logit[1:].detach(), torch.tensor([0.5])).item() == pytest.approx(0.836988, abs=1e-6)
    assert value_bce(torch.tensor([-200.0]), torch.tensor([1.0])).item() == pytest.approx(200.0)  # not inf
    with pytest.raises(ValueError, match="target"):
        value_bce(torch.zeros(0), torch.zeros(0))


def test_head_golden():
    """V(s, c) with s of length 2 and c of length 1."""
    # s = (1, 2), c = 0.5: units relu(1 + 0.5) = 1.5 and relu(-2 + 0.5) = 0; logit 2 * 1.5 - 0 - 1 = 2.
    # s = (0, 0), c = 0:   units 0 and 0.5; logit -0.5 - 1 = -1.5.
    head = StepValue(2, 1, 2)
    weights = {
        "mlp.0.weight": torch.tensor([[1.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
        "mlp.0.bias": torch.tensor([0.0, 0.5]),
        "mlp.2.weight": torch.tensor([[2.0, -1.0]]),
        "mlp.2.bias": torch.tensor([-1.0]),
        "successes": torch.tensor(1),
    }
    head.load_state_dict(weights)
    state, instruction = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.5], [0.0]])
    assert head(state, instruction).tolist() == pytest.approx([2.0, -1.5])
    assert head.predict(state, instruction).tolist() == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(1.5))])
    far = head.predict(torch.tensor([[100.0, 0.0], [0.0, -100.0]]), torch.zeros(2, 1))
    assert far.tolist() == pytest.approx([1 - MIN_VALUE, MIN_VALUE])


def test_training_step_golden():
    # With all weights 0 every logit is 0: loss log 2, and the last bias has gradient 0.5 - mean target = -0.25.
    head = InstructionValue(3, hidden=4)
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(head.parameters(), lr=1.0)
    metrics = train_step(head, optimizer, [torch.ones(4, 3)], torch.tensor([1.0, 1.0, 0.0, 1.0]))
    assert metrics == pytest.approx(
        {"loss": math.log(2), "grad_norm": 0.25, "value_mean": 0.5, "target_mean": 0.75, "successes_seen": 3}
    )
    # Clipped to norm 0.1: the bias, which has all of the gradient, moves by 0.1 from 0.25 towards lower values.
    metrics = train_step(head, optimizer, [torch.ones(1, 3)], torch.zeros(1), max_grad_norm=0.1)
    assert metrics["grad_norm"] == pytest.approx(1 / (1 + math.exp(-0.25)), abs=1e-5)
    assert head.mlp[2].bias.item() == pytest.approx(0.15, abs=1e-5)


def test_a_head_that_never_saw_a_success_is_not_ready():
    head = InstructionValue(2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    train_step(head, optimizer, [torch.ones(8, 2)], torch.zeros(8))
    assert not head.ready
    with pytest.raises(ValueError, match="success"):
        head.predict(torch.ones(1, 2))
    train_step(head, optimizer, [torch.ones(8, 2)], torch.eye(8)[0])
    restored = InstructionValue(2)
    restored.load_state_dict(head.state_dict())
    assert restored.ready and torch.equal(restored.predict(torch.ones(1, 2)), head.predict(torch.ones(1, 2)))
