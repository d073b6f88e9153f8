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
    soft = value_bce(logit[1:].detach(), torch.tensor([0.5]))
    assert soft.item() == pytest.approx(0.836988, abs=1e-6)
    assert value_bce(torch.tensor([-200.0]), torch.tensor([1.0])).item() == pytest.approx(200.0)  # not inf


def test_value_bce_bad_input():
    with pytest.raises(ValueError, match="target must lie in"):
        value_bce(torch.zeros(2), torch.tensor([0.0, 1.5]))
    with pytest.raises(ValueError, match="target has shape"):
        value_bce(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match="at least one target"):
        value_bce(torch.zeros(0), torch.zeros(0))


def step_head(hidden=2):
    """V(s, c) with s of length 2 and c of length 1, weights by hand."""
    head = StepValue(2, 1, hidden)
    first, last = head.mlp[0], head.mlp[2]
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0.0, 1.0], [0.0, -1.0, 0.0]]))
        first.bias.copy_(torch.tensor([0.0, 0.5]))
        last.weight.copy_(torch.tensor([[2.0, -1.0]]))
        last.bias.fill_(-1.0)
    head.successes += 1
    return head


def test_head_golden():
    # s = (1, 2), c = 0.5: units relu(1 + 0.5) = 1.5 and relu(-2 + 0.5) = 0; logit 2 * 1.5 - 0 - 1 = 2.
    # s = (0, 0), c = 0:   units 0 and 0.5; logit -0.5 - 1 = -1.5.
    head = step_head()
    state, instruction = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.5], [0.0]])
    assert head(state, instruction).tolist() == pytest.approx([2.0, -1.5])
    assert head.predict(state, instruction).tolist() == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(1.5))])


def test_predictions_are_clamped():
    head = step_head()
    far = head.predict(torch.tensor([[100.0, 0.0], [0.0, -100.0]]), torch.zeros(2, 1))
    assert far.tolist() == pytest.approx([1 - MIN_VALUE, MIN_VALUE])
    assert MIN_VALUE == 1e-4


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
    assert head.mlp[2].bias.item() == pytest.approx(0.25)
    # Clipped to norm 0.1: the bias moves by 0.1 (the gradient is all in it), from 0.25 towards lower values.
    metrics = train_step(head, optimizer, [torch.ones(1, 3)], torch.zeros(1), max_grad_norm=0.1)
    assert metrics["grad_norm"] == pytest.approx(1 / (1 + math.exp(-0.25)), abs=1e-5)
    assert head.mlp[2].bias.item() == pytest.approx(0.15, abs=1e-5)


def trained(steps, seed=0):
    """A head that learns "success iff the first number is positive and the instruction is 1"."""
    torch.manual_seed(seed)
    head = StepValue(4, 1, hidden=16)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        state = torch.randn(64, 4, generator=data)
        instruction = torch.randint(0, 2, (64, 1), generator=data).float()
        train_step(head, optimizer, (state, instruction), ((state[:, 0] > 0) & (instruction[:, 0] > 0)).float())
    return head, optimizer


def test_a_head_learns_what_depends_on_state_and_instruction():
    head, _ = trained(300)
    state = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    good, bad, other = head.predict(state, torch.tensor([[1.0], [1.0], [0.0]])).tolist()
    assert good > 0.8
    assert max(bad, other) < 0.2


def test_a_head_that_never_saw_a_success_is_not_ready():
    head = InstructionValue(2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    metrics = train_step(head, optimizer, [torch.ones(8, 2)], torch.zeros(8))
    assert metrics["successes_seen"] == 0
    assert not head.ready
    with pytest.raises(ValueError, match="never trained with a success"):
        head.predict(torch.ones(1, 2))
    train_step(head, optimizer, [torch.ones(8, 2)], torch.eye(8)[0])
    assert head.ready
    head.predict(torch.ones(1, 2))


def test_state_dict_restores_values_and_readiness():
    head, _ = trained(3)
    twin = StepValue(4, 1, hidden=16)
    twin.load_state_dict(head.state_dict())
    assert twin.ready
    features = torch.randn(5, 4), torch.ones(5, 1)
    assert torch.equal(twin.predict(*features), head.predict(*features))


def test_bad_input_changes_nothing():
    head, optimizer = trained(2)
    before = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    state, instruction, target = torch.ones(2, 4), torch.ones(2, 1), torch.ones(2)
    for features, wanted, message in [
        ((state * math.nan, instruction), target, "feature 0 holds NaN"),
        ((state, instruction), target * 2, "target must lie in"),
        ((state, instruction), target[:1], "target has shape"),
        ((state[:, :3], instruction), target, r"feature 0 has shape \(2, 3\), not \(rows, 4\)"),
        ((state * 1e38, instruction), torch.eye(2)[0], "gradient is not finite|value_logit holds NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            train_step(head, optimizer, features, wanted)
    assert all(torch.equal(tensor, before[name]) for name, tensor in head.state_dict().items())


def test_no_gradient_reaches_the_features():
    head, optimizer = trained(1)
    state = torch.ones(2, 4, requires_grad=True)
    train_step(head, optimizer, (state, torch.ones(2, 1)), torch.ones(2))
    assert state.grad is None
