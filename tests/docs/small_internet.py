"""What the pages fetch: a Hub that holds small datasets in the layout of the real ones, and a proxy that plays example.com.

Web text is Python's own manual; stories, and questions about them, come from the small world: so what pages say of words, tokens
and losses is about text, not about noise.
"""

import contextlib
import functools
import gzip
import io
import json
import pydoc_data.topics
from collections.abc import Generator, Iterator
from typing import Any

import loopback
import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill.lm.small_world import stories
from tokenmill.lm.small_world_questions import UNSURE, Question, questions, sft_rows

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
    wiki = {"train": slice(0, 12), "validation": slice(12, 15), "test": slice(15, 18)}
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
            f"wikitext-2-raw-v1/{split}-00000-of-00001.parquet": wikitext_file(which)
            for split, which in wiki.items()
        },
        "yahma/alpaca-cleaned": {"alpaca_data_cleaned.json": alpaca_file(1200)},
        "OpenAssistant/oasst1": {
            "data/train-00000-of-00001-b42a775f407cee45.parquet": oasst1_file(50_000, 200),
            "data/validation-00000-of-00001-134b8fd0c89408b6.parquet": oasst1_file(60_000, 40),
        },
    }


def stories_file(start: int, count: int) -> bytes:
    """As TinyStories has it: a line between two stories, and one behind the last."""
    return "".join(f"{text}\n{EOS}\n" for text in stories(1, count, start)).encode()


def wikitext_file(which: slice) -> bytes:
    """As WikiText has it: a row for each line, spaces around it, titles between equals signs."""
    lines: list[str] = []
    for name, text in list(pydoc_data.topics.topics.items())[which]:
        lines += ["", f" = {name} = \n", "", *(f" {line} \n" for line in text.splitlines())]
    return parquet_of(pa.table({"text": lines}))


def alpaca_file(count: int) -> bytes:
    """One array. Every third row has no input."""
    examples: list[dict[str, str]] = []
    for asked, row in zip(questions(1, count), sft_rows(1, count), strict=True):
        answer = row["messages"][1]["content"]
        alone = len(examples) % 3 == 2
        instruction, given = (asked.prompt, "") if alone else (asked.text, asked.passage)
        examples.append({"instruction": instruction, "input": given, "output": answer})
    return json.dumps(examples).encode()


def oasst1_file(start: int, num_trees: int) -> bytes:
    """A row for each message. Of a tree one question, three answers with ranks, and thanks for the best of some."""
    posts: list[dict[str, object]] = []
    for number, asked in enumerate(questions(1, num_trees, start)):
        posts += oasst1_tree(f"{start + number:08x}", asked, has_thanks=number % 4 == 0)
    columns = {name: [post[name] for post in posts] for name in posts[0]}
    return parquet_of(pa.table(columns))


def oasst1_tree(tree: str, asked: Question, has_thanks: bool) -> Iterator[dict[str, object]]:
    def post(
        name: str, parent: str | None, text: str, rank: int | None = None
    ) -> dict[str, object]:
        return {
            "message_id": f"{tree}-{name}",
            "parent_id": None if parent is None else f"{tree}-{parent}",
            "text": text,
            "role": "prompter" if name in ("root", "thanks") else "assistant",
            "lang": "en",
            "rank": rank,
            "message_tree_id": f"{tree}-root",
            "tree_state": "ready_for_export",
        }

    yield post("root", None, asked.prompt)
    for rank, answer in enumerate((*asked.answers, UNSURE.format(asked.wrong))):
        yield post(f"answer{rank}", "root", answer, rank)
    if has_thanks:
        yield post("thanks", "answer0", "Thank you!")
        yield post("welcome", "thanks", "You are welcome.")


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
