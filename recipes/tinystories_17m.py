"""TinyStories with CS336's 17M model: text, tokenizer, ids, model, what it is worth.

The course's targets for this setting: a validation loss of at most 1.45 nats a token after 327.68 million tokens on a GPU, or of
at most 2.00 after 40 million on a CPU (its staff reports 1.80). A loss per token depends on the tokenizer; bits per byte do not, and are printed
beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from recipe import Step, main, training_price, write_stories

import tokenmill as tm

EOS = "<|endoftext|>"


def tinystories_17m(folder: Path, tiny: bool = False) -> Sequence[Step]:
    """20,000 steps of 64 rows of 256 tokens."""
    config = tm.lm.preset("17m", vocab_size=10_000, context=256)
    steps, batch_size, vocab_size, lr = 20_000, 64, 10_000, 3e-3
    if tiny:
        steps, batch_size, vocab_size, lr = 60, 8, 512, 4e-3
        config = replace(tm.lm.preset("1m"), num_layers=2, context=64, vocab_size=vocab_size)
    text, tok, ids, run = (folder / name for name in ("text", "tokenizer", "ids", "run"))

    def get_text() -> str:
        return (
            write_stories(text, 1500) if tiny else f"{tm.pull('tinystories', text).bytes:,} bytes"
        )

    def train_tokenizer() -> str:
        made = tm.train(str(text / "train"), vocab_size=vocab_size, profile="cs336", out=tok)
        return f"vocab {made.vocab_size:,}"

    def encode() -> str:
        made = tm.encode_dataset(str(text), tok, ids, eos=EOS)
        return f"{made['train'].num_tokens:,} tokens"

    def pretrain() -> str:
        how = {"max_steps": steps, "batch_size": batch_size, "lr": lr}
        shape = replace(config, vocab_size=tm.Tokenizer.load(tok).vocab_size)
        done = tm.lm.pretrain(ids, run, model=shape, sample_every=steps // 10, **how)
        return f"validation loss {done.validation_loss:.4f}"

    def evaluate() -> str:
        loaded = tm.lm.open_model(run)
        found = tm.lm.evaluate(loaded.model, tm.Dataset.open(ids)["validation"])
        return f"{found.loss:.4f} nats a token, {found.bits_per_byte:.4f} bits per byte"

    return [
        Step(
            "text",
            "TinyStories V2, 2.2 GB" if not tiny else "1,500 stories of the small world",
            get_text,
        ),
        Step("tokenizer", f"byte-level BPE with {vocab_size:,} tokens: seconds", train_tokenizer),
        Step("ids", "both splits as uint16, 2 bytes a token", encode),
        Step("pretrain", training_price(config, steps * batch_size * config.context), pretrain),
        Step("evaluate", "every validation story whole", evaluate),
    ]


if __name__ == "__main__":
    main("TinyStories with CS336's 17M model.", tinystories_17m)
