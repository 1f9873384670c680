"""nanochat's tokenizer: eight shards of FineWeb-Edu in, 65,536 tokens out, in the file that nanochat loads."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from recipe import Step, main

import tokenmill as tm
from tokenmill.lm.small_world import stories
from tokenmill.tokenizer.convert import convert as to_format


def nanochat_tokenizer(folder: Path, tiny: bool = False) -> Sequence[Step]:
    """Training text is what `python -m nanochat.dataset -n 8` brings; the last shard is held back and measured with."""
    vocab_size = 1024 if tiny else 65_536
    text, tok = folder / "text", folder / "tokenizer"

    def get_text() -> str:
        if not tiny:
            return f"{tm.pull('fineweb-edu', text, shards='..8,-1').bytes:,} bytes"
        for number in range(9):
            place = text / ("train" if number < 8 else "validation")
            place.mkdir(parents=True, exist_ok=True)
            rows = pa.table({"text": list(stories(1, 200, 200 * number))})
            pq.write_table(rows, place / f"shard_{number:05}.parquet", row_group_size=50)
        return "9 shards"

    def train() -> str:
        made = tm.train(str(text / "train"), vocab_size=vocab_size, profile="nanochat", out=tok)
        return f"vocab {made.vocab_size:,}, sha256 {made.sha256[:16]}…"

    def measure() -> str:
        tokenizer = tm.Tokenizer.load(tok)
        table = pq.read_table(text / "validation")
        texts = table.column("text").to_pylist()
        tokens = sum(map(len, tokenizer.encode_batch(texts)))
        num_bytes = sum(len(each.encode()) for each in texts)
        return f"{num_bytes / tokens:.3f} bytes a token on text it has not seen"

    def convert() -> str:
        done = to_format(tok, "nanochat", folder / "nanochat")
        return ", ".join(str(file) for file in done.files)

    return [
        Step(
            "text", "9 shards of about 90 MB" if not tiny else "9 small shards of stories", get_text
        ),
        Step(
            "tokenizer",
            f"{vocab_size:,} tokens, nanochat's pattern, special tokens and order of ids",
            train,
        ),
        Step("measure", "the shard that was held back", measure),
        Step(
            "convert",
            "tokenizer.pkl and token_bytes.pt, as nanochat's own script leaves them",
            convert,
        ),
    ]


if __name__ == "__main__":
    main("nanochat's tokenizer of 65,536 tokens.", nanochat_tokenizer)
