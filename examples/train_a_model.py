"""A training script of your own: stories in, a model and a sample out, in seconds on two cores.

The sample goes to stderr: after so few steps it is hardly a story. Try 500.

Prints:
    the loss fell by more than half: True
    a checkpoint for each tenth, the last two and the best are kept: True
"""

import sys
import tempfile
from pathlib import Path

import tokenmill as tm
from tokenmill.lm import small_world

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
folder = Path(tempfile.mkdtemp())

stories = list(small_world.stories(seed=1, count=2000))
tokenizer = tm.train(tm.documents(stories), vocab_size=512)
tm.encode_dataset(tm.documents(stories), tokenizer, folder / "ids", val_fraction=0.02)

losses: list[float] = []
made = tm.lm.pretrain(
    folder / "ids",
    folder / "run",
    model=tm.lm.preset("1m", vocab_size=tokenizer.vocab_size, context=64),
    max_steps=steps,
    batch_size=16,
    lr=4e-3,
    device="cpu",
    on_step=lambda step: losses.append(step.loss),
)
print("the loss fell by more than half:", losses[-1] < losses[0] / 2)
kept = len(list((folder / "run" / "checkpoints").iterdir()))
print("a checkpoint for each tenth, the last two and the best are kept:", kept in (2, 3))
sample = tm.lm.generate(made.model, tokenizer, [""], max_tokens=80, seed=1)[0]
print(sample.text, file=sys.stderr)
