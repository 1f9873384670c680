"""The chunked loss is the plain one: value, both gradients, any chunk, type and mask."""

import pytest
import torch

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.lm import loss
from tokenmill.lm.loss import chunked_loss, plain_loss, score_tokens


@pytest.mark.parametrize("softcap", [None, 4.0])
@pytest.mark.parametrize("chunk_bytes", [1, 5000, 1 << 30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chunks_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, softcap: float | None, chunk_bytes: int, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(loss, "CHUNK_BYTES", chunk_bytes)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 11, 8, dtype=dtype, generator=generator, requires_grad=True)
    head = torch.randn(130, 8, dtype=dtype, generator=generator, requires_grad=True)
    targets = torch.randint(0, 130, (3, 11), generator=generator)
    targets[1, 4:] = NOT_TRAINED
    found, wanted = (make(hidden, head, targets, softcap) for make in (chunked_loss, plain_loss))
    atol, rtol = (1e-4, 1e-5) if dtype == torch.float32 else (1e-10, 1e-10)
    torch.testing.assert_close(found, wanted, atol=atol, rtol=rtol)
    for ours, theirs in zip(
        torch.autograd.grad(found * 0.3, (hidden, head)),
        torch.autograd.grad(wanted * 0.3, (hidden, head)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=atol, rtol=rtol)


def test_nothing_to_train_on_is_zero() -> None:
    hidden = torch.randn(1, 4, 8, requires_grad=True)
    head = torch.randn(20, 8, requires_grad=True)
    found = chunked_loss(hidden, head, torch.full((1, 4), NOT_TRAINED))
    found.backward()
    assert found == 0
    assert hidden.grad is not None
    assert not hidden.grad.any()


def test_no_gradient_is_kept_where_none_is_wanted() -> None:
    with torch.no_grad():
        found = chunked_loss(torch.randn(1, 4, 8), torch.randn(20, 8), torch.zeros(1, 4).long())
    assert not found.requires_grad


@pytest.mark.parametrize("softcap", [None, 4.0])
@pytest.mark.parametrize("chunk_bytes", [1, 5000, 1 << 30])
def test_scores_of_tokens_are_those_of_whole_logits(
    monkeypatch: pytest.MonkeyPatch, softcap: float | None, chunk_bytes: int
) -> None:
    monkeypatch.setattr(loss, "CHUNK_BYTES", chunk_bytes)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(31, 8, dtype=torch.float64, generator=generator, requires_grad=True)
    head = torch.randn(130, 8, dtype=torch.float64, generator=generator, requires_grad=True)
    targets = torch.randint(0, 130, (31,), generator=generator)
    logits = hidden @ head.t()
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    targets[:9] = logits[:9].argmax(1)
    log_probs = logits.log_softmax(1)
    wanted = log_probs[torch.arange(31), targets]
    found = score_tokens(hidden, head, targets, softcap)
    torch.testing.assert_close(found.log_probs_N, wanted)
    torch.testing.assert_close(found.entropy_N, -(log_probs.exp() * log_probs).sum(1))
    torch.testing.assert_close(found.mean_logit_N, logits.mean(1))
    assert 9 <= found.is_top_N.sum() < 15
    assert found.is_top_N.bool().tolist() == (logits.argmax(1) == targets).tolist()
    weights = torch.linspace(-1, 2, 31, dtype=torch.float64)
    for ours, theirs in zip(
        torch.autograd.grad((found.log_probs_N * weights).sum(), (hidden, head)),
        torch.autograd.grad((wanted * weights).sum(), (hidden, head)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_of_equal_tokens_the_first_is_the_top_one() -> None:
    """As TRL has it. Tokens that are new to a model are all equal at first."""
    head = torch.tensor([[1.0], [2.0], [2.0], [0.0]])
    found = score_tokens(torch.ones(4, 1), head, torch.arange(4))
    assert found.is_top_N.tolist() == [0, 1, 0, 0]
