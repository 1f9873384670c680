# pyright: basic
# (pyarrow has no types to be strict about)
"""OpenAssistant: trees of messages in; preference pairs, or the best conversation of each tree, out.

A tree is walked from its root along the best reply. Where several answers to one message are ranked,
every better one is preferred to every worse one. 500 trees of the training split, drawn by the seed,
are for testing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenmill.pull.catalogue import TEST, TRAIN
from tokenmill.pull.rows.shape import Choice, Row, drawn, message

TEST_TREES = 500
COLUMNS = ["message_id", "parent_id", "text", "role", "rank"]
_ROLES = {"prompter": "user", "assistant": "assistant"}


@dataclass(frozen=True)
class Post:
    """One message of a tree."""

    id: str
    parent: str | None
    text: str
    role: str
    rank: float | None


def rows(
    sources: Mapping[str, Sequence[Path]], choice: Choice, skipped: "Counter[str]"
) -> Iterator[tuple[str, Row]]:
    for split, paths in sources.items():
        posts = [post for path in paths for post in _posts(path, skipped)]
        children: dict[str | None, list[Post]] = {}
        for post in posts:
            children.setdefault(post.parent, []).append(post)
        roots = children.pop(None, [])
        known = {post.id for post in posts}
        skipped["messages whose parent is missing"] += sum(
            len(replies) for parent, replies in children.items() if parent not in known
        )
        count = min(TEST_TREES, len(roots) // 4) if split == TRAIN else 0
        test = drawn([root.id for root in roots], count, choice.seed)
        for root in roots:
            for row in _rows_of(root, children, choice.config):
                yield (TEST if root.id in test else split), row
    for reason in [reason for reason, number in skipped.items() if number == 0]:
        del skipped[reason]


def _rows_of(root: Post, children: Mapping[str | None, list[Post]], config: str) -> Iterator[Row]:
    path = [root]
    while replies := sorted(children.get(path[-1].id, []), key=_place):
        if config == "preference" and path[-1].role == "user":
            yield from _pairs(path, replies)
        path.append(replies[0])
    while path and path[-1].role != "assistant":
        path.pop()
    if config == "messages" and path:
        yield {"messages": [message(post.role, post.text) for post in path]}


def _place(post: Post) -> tuple[bool, float, str]:
    """Best first; what nobody ranked comes last."""
    return post.rank is None, post.rank or 0.0, post.id


def _pairs(path: Sequence[Post], replies: Sequence[Post]) -> Iterator[Row]:
    ranked = [reply for reply in replies if reply.rank is not None and reply.role == "assistant"]
    prompt = [message(post.role, post.text) for post in path]
    for index, better in enumerate(ranked):
        for worse in ranked[index + 1 :]:
            if better.rank != worse.rank and better.text != worse.text:
                yield {
                    "prompt": prompt,
                    "chosen": [message("assistant", better.text)],
                    "rejected": [message("assistant", worse.text)],
                }


def _posts(path: Path, skipped: "Counter[str]") -> Iterator[Post]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(4096, columns=COLUMNS, use_threads=False):
            for row in batch.to_pylist():
                role = _ROLES.get(row["role"])
                if role is None or row["text"] is None or row["message_id"] is None:
                    skipped["messages without a role or a text"] += 1
                    continue
                yield Post(row["message_id"], row["parent_id"], row["text"], role, row["rank"])
