"""What the pages fetch: a Hub that holds small datasets in the layout of the real ones, and a proxy that plays example.com.

Web text is Python's own manual and stories come from the small world, so that what pages say of words, tokens and losses is
about text, not about noise.
"""

import contextlib
import functools
import gzip
import io
import pydoc_data.topics
from collections.abc import Generator
from typing import Any

import loopback
import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill.lm.small_world import stories

NUM_SHARDS, LAST_SHARD = 240, 1822
EOS = "<|endoftext|>"


@contextlib.contextmanager
def a_small_internet() -> Generator[dict[str, str]]:
    """The variables that lead there."""
    with loopback.serving(loopback.Hub) as hub, loopback.serving() as proxy:
        assert isinstance(hub, loopback.Hub)
        for name, files in datasets().items():
            hub.add_dataset(name, files)
        for name in ("poems.txt", "prose.txt"):
            proxy.add(name, EOS.join(stories(seed=1, count=8)).encode())
        yield {"HF_ENDPOINT": hub.url, "http_proxy": proxy.url, "no_proxy": "127.0.0.1"}


@functools.cache
def datasets() -> dict[str, dict[str, bytes]]:
    """Dataset → path → content."""
    articles = list(pydoc_data.topics.topics.values())
    parts = [nanochat_shard(articles[number::9]) for number in range(9)]
    shards = {number: parts[min(number, 8)] for number in (*range(NUM_SHARDS), LAST_SHARD)}
    lines = nanochat_shard(["", " = A title = \n", " Some words . \n", " = Another = \n"])
    return {
        "karpathy/fineweb-edu-100b-shuffle": {
            f"shard_{number:05}.parquet": content for number, content in shards.items()
        },
        "HuggingFaceFW/fineweb": {
            f"sample/{size}/{number:03}_00000.parquet": fineweb_file(articles[number::3])
            for size in ("10BT", "100BT")
            for number in range(3)
        },
        "roneneldan/TinyStories": {
            "TinyStoriesV2-GPT4-train.txt": stories_file(0, 1200),
            "TinyStoriesV2-GPT4-valid.txt": stories_file(1200, 60),
        },
        "stanford-cs336/owt-sample": {
            "owt_train.txt.gz": gzip.compress(EOS.join(articles[:70]).encode()),
            "owt_valid.txt.gz": gzip.compress(EOS.join(articles[70:]).encode()),
        },
        "Salesforce/wikitext": {
            f"wikitext-2-raw-v1/{split}-00000-of-00001.parquet": lines
            for split in ("train", "validation", "test")
        },
    }


def stories_file(start: int, count: int) -> bytes:
    """As TinyStories has it: a line between two stories, and one behind the last."""
    return "".join(f"{text}\n{EOS}\n" for text in stories(1, count, start)).encode()


def nanochat_shard(texts: list[str]) -> bytes:
    """As nanochat packs its shards."""
    return parquet_of(
        pa.table({"text": texts}),
        row_group_size=1024,
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
        write_statistics=False,
    )


def fineweb_file(texts: list[str]) -> bytes:
    """Text among columns that nobody asked for."""
    ids = [f"<urn:uuid:{number}>" for number in range(len(texts))]
    languages = ["en"] * len(texts)
    scores = [0.97] * len(texts)
    columns = {"text": texts, "id": ids, "language": languages, "language_score": scores}
    return parquet_of(pa.table(columns))


def parquet_of(table: pa.Table, **settings: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **settings)
    return sink.getvalue()
