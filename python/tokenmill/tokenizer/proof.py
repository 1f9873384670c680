"""What can be proved about a vocab once it is loaded, whatever file it came from.

Two programs may read the same tokens and still encode differently: Hugging Face ranks pairs, tiktoken
ranks the bytes that two neighbours spell together, and takes a whole pretoken that is a token at
once. docs/formats.md has the argument that decides when the two agree.
"""

from dataclasses import dataclass

from tokenmill import _core
from tokenmill.tokenizer.vocab import Merge, Vocab, show


@dataclass(frozen=True)
class Proof:
    """Found by running every token through the merges, not by sampling text."""

    unreachable: tuple[int, ...]
    """Ordinary tokens to which merges do not lead from their own bytes. With `ignore_merges` they
    still stand for a pretoken that they spell; otherwise no text has them."""
    ids_without_token: tuple[int, ...]
    unused_merges: int
    """Merges that never apply to any text, because their token always comes about in another way."""
    difference: str | None
    """Why ranks by bytes may give other ids than these merges, naming the first token or merge;
    None if both give every text the same ids."""

    @property
    def agrees(self) -> bool:
        """Whether rank by bytes, as in tiktoken, and rank by pair give every text the same ids."""
        return self.difference is None


def prove(vocab: Vocab) -> Proof:
    """All of it, in a few tenths of a second for 100,000 tokens."""
    core = vocab.core
    unreachable = core.unreachable()
    used = core.used_merges()
    return Proof(
        unreachable=tuple(unreachable),
        ids_without_token=tuple(i for i, token in enumerate(vocab.tokens) if not token),
        unused_merges=core.num_merges - len(used),
        difference=_difference(vocab, unreachable, used),
    )


def _difference(vocab: Vocab, unreachable: list[int], used: list[int]) -> str | None:
    if unreachable and not vocab.ignore_merges:
        token = show(vocab.tokens[unreachable[0]])
        return (
            f"no merges lead to token {unreachable[0]}, {token}, but tiktoken would make it anyway"
        )
    special_ids = set(vocab.special_tokens.values())
    ordinary = [b"" if i in special_ids else token for i, token in enumerate(vocab.tokens)]
    by_bytes = _core.Vocab.from_ranks(ordinary, vocab.special_tokens).merges()
    by_pair = [vocab.merges[rank] for rank in used]
    if by_bytes == by_pair:
        return None
    return _first_difference(vocab, used, by_pair, by_bytes)


def _first_difference(
    vocab: Vocab, ranks: list[int], by_pair: list[Merge], by_bytes: list[Merge]
) -> str:
    highest = -1
    for rank, (_, _, joined) in zip(ranks, by_pair, strict=True):
        if joined < highest:
            return (
                f"merge {rank} makes id {joined} after {highest}, and tiktoken merges by lowest id"
            )
        highest = joined
    parts_of = {joined: (left, right) for left, right, joined in by_bytes}
    for left, right, joined in by_pair:
        other = parts_of.pop(joined, None)
        if other != (left, right):
            token, ours = show(vocab.tokens[joined]), _parts(vocab, (left, right))
            theirs = "not at all" if other is None else f"from {_parts(vocab, other)}"
            return (
                f"the merges make token {joined}, {token}, from {ours}, tiktoken makes it {theirs}"
            )
    joined = min(parts_of)
    token, theirs = show(vocab.tokens[joined]), _parts(vocab, parts_of[joined])
    return f"the merges make token {joined}, {token}, not at all, tiktoken makes it from {theirs}"


def _parts(vocab: Vocab, parts: tuple[int, int]) -> str:
    return f"{show(vocab.tokens[parts[0]])} and {show(vocab.tokens[parts[1]])}"
