"""Which learning rate converges? Ten steps of the course's gradient descent, at four rates.

The loss is the mean square of a hundred weights, and step t is shorter by sqrt(t + 1).

Prints:
    lr      1:   26.27 →   21.74  falls
    lr     10:   26.27 →    3.53  falls
    lr    100:   26.27 →    0.00  falls
    lr   1000:   26.27 → 2.4e+18  diverges
"""

import torch

from tokenmill.lm.optimizer import SlowingSGD

for lr in (1, 10, 100, 1000):
    torch.manual_seed(0)
    weights = torch.nn.Parameter(5 * torch.randn(10, 10))
    optimizer = SlowingSGD([weights], lr)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = weights.square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    last = f"{losses[-1]:7.2f}" if losses[-1] < 1e6 else f"{losses[-1]:7.1e}"
    course = "falls" if losses[-1] < losses[0] else "diverges"
    print(f"lr {lr:6}: {losses[0]:7.2f} → {last}  {course}")
