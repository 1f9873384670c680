"""A pipeline from text to an assistant: TinyStories and WikiText, then SFT on Alpaca, then DPO on OpenAssistant.

The size is that of one L4 for a day or two: 160 million parameters. What each stage costs is printed before anything is done.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from recipe import Step, main, training_price, write_rows, write_stories

import tokenmill as tm
from tokenmill.lm.preference_scoring import score_preferences
from tokenmill.lm.small_world_questions import preference_rows, sft_rows

EOS = "<|endoftext|>"


def stories_to_assistant(folder: Path, tiny: bool = False) -> Sequence[Step]:
    """Three trainings, each from the model before."""
    config, vocab_size = tm.lm.preset("160m"), 16_384
    base_how = {
        "max_steps": 12_000,
        "batch_size": 256,
        "micro_batch_size": 16,
        "lr": 6e-4,
        "precision": "bf16",
    }
    sft_how, dpo_how = {"batch_size": 32}, {"batch_size": 32}
    if tiny:
        vocab_size = 512
        config = replace(tm.lm.preset("1m"), num_layers=2, context=64)
        base_how = {"max_steps": 40, "batch_size": 8, "lr": 4e-3}
        sft_how, dpo_how = {"batch_size": 8, "max_steps": 20}, {"batch_size": 8, "max_steps": 8}
    config = replace(config, vocab_size=vocab_size)
    text, wiki, chats, prefs = (
        folder / "text" / name for name in ("stories", "wiki", "chats", "prefs")
    )
    tok, ids, base, sft, dpo = (
        folder / name for name in ("tokenizer", "ids", "base", "sft", "dpo")
    )

    def get_text() -> str:
        if tiny:
            return write_stories(text, 1000)
        pulled = [tm.pull("tinystories", text), tm.pull("wikitext", wiki)]
        return f"{sum(each.bytes for each in pulled):,} bytes"

    def train_tokenizer() -> str:
        sources = [str(place / "train") for place in (text, wiki) if place.exists()]
        return f"vocab {tm.train(sources, vocab_size=vocab_size, out=tok).vocab_size:,}"

    def encode() -> str:
        sources = [str(place) for place in (text, wiki) if place.exists()]
        return f"{tm.encode_dataset(sources, tok, ids, eos=EOS)['train'].num_tokens:,} tokens"

    def pretrain() -> str:
        shape = replace(config, vocab_size=tm.Tokenizer.load(tok).vocab_size)
        return f"validation loss {tm.lm.pretrain(ids, base, model=shape, **base_how).validation_loss:.4f}"

    def fine_tune() -> str:
        if tiny:
            write_rows(chats / "train" / "rows.jsonl", list(sft_rows(0, 400)))
        else:
            tm.pull("alpaca", chats)
        tm.encode_dataset(str(chats), tok, folder / "sft-ids", mode="sft")
        return f"loss {tm.lm.sft(folder / 'sft-ids', sft, base=base, **sft_how).train_loss:.4f}"

    def prefer() -> str:
        if tiny:
            write_rows(prefs / "train" / "rows.jsonl", list(preference_rows(0, 120)))
            held_back = preference_rows(0, 40, start=10_000)
            write_rows(prefs / "validation" / "rows.jsonl", list(held_back))
        else:
            tm.pull("oasst1", prefs)
        tokenizer = tm.lm.open_model(sft).tokenizer
        assert tokenizer is not None
        tm.encode_dataset(str(prefs), tokenizer, folder / "dpo-ids", mode="preference")
        return f"loss {tm.lm.dpo(folder / 'dpo-ids', dpo, base=sft, **dpo_how).train_loss:.4f}"

    def evaluate() -> str:
        shares: list[str] = []
        for run in (sft, dpo):
            loaded = tm.lm.open_model(run)
            assert loaded.tokenizer is not None
            found = score_preferences(loaded.model, loaded.tokenizer, folder / "dpo-ids")
            shares.append(f"{run.name} {found.accuracy:.1%}")
        return "pairs ranked right: " + ", ".join(shares)

    tokens = base_how["max_steps"] * base_how["batch_size"] * config.context
    return [
        Step(
            "text",
            "TinyStories V2 and WikiText-103, 2.8 GB" if not tiny else "1,000 stories",
            get_text,
        ),
        Step("tokenizer", f"byte-level BPE with {vocab_size:,} tokens", train_tokenizer),
        Step("ids", "all splits as uint16", encode),
        Step("pretrain", training_price(config, tokens), pretrain),
        Step(
            "sft",
            "48,000 conversations of Alpaca, two epochs" if not tiny else "400 conversations",
            fine_tune,
        ),
        Step(
            "dpo", "pairs of OpenAssistant, one epoch, β 0.1" if not tiny else "120 pairs", prefer
        ),
        Step("evaluate", "the pairs that were held back", evaluate),
    ]


if __name__ == "__main__":
    main("TinyStories and WikiText, SFT on Alpaca, DPO on OpenAssistant.", stories_to_assistant)
