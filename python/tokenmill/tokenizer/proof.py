"""What can be proved about a vocab once it is loaded, whatever file it came from.

Two programs may read the same tokens and still encode differently: Hugging Face ranks pairs, tiktoken
ranks the bytes that two neighbours spell together, and takes a whole pretoken that is a token at
once. docs/formats.md has the argument that decides when the two agree.
"""

from dataclasses import dataclass

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats import tiktoken_ranks
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
    ranks: bytes | None
    """The ranks.tiktoken that was read to find that there is no difference; None if there is one."""

    @property
    def agrees(self) -> bool:
        """Whether rank by bytes, as in tiktoken, and rank by pair give every text the same ids."""
        return self.difference is None


def prove(vocab: Vocab) -> Proof:
    """All of it, in a tenth of a second or two for 100,000 tokens."""
    core = vocab.core
    ranks = tiktoken_ranks.write_ranks(vocab)
    by_bytes = _core.Vocab.read_ranks(
        ranks, vocab.special_tokens, file=tiktoken_ranks.RANKS_FILE_NAME
    )
    if by_bytes == core:
        # Rank by bytes makes each token in one way, by the merge that it gives: all are used.
        unreachable, unused, difference = by_bytes.unreachable(), 0, None
    else:
        unreachable, used = core.unreachable(), core.used_merges()
        unused = core.num_merges - len(used)
        difference = _difference(vocab, by_bytes, unreachable, used)
    return Proof(
        unreachable=tuple(unreachable),
        ids_without_token=vocab.ids_without_token,
        unused_merges=unused,
        difference=difference,
        ranks=ranks if difference is None else None,
    )


def _difference(
    vocab: Vocab, by_bytes: _core.Vocab, unreachable: list[int], used: list[int]
) -> str | None:
    if by_bytes.tokens() != list(vocab.tokens):
        raise FormatError(
            f"`{tiktoken_ranks.RANKS_FILE_NAME}` read back differs in tokens",
            "this is a bug in tokenmill: please report it",
        )
    if unreachable and not vocab.ignore_merges:
        token = show(vocab.tokens[unreachable[0]])
        return (
            f"no merges lead to token {unreachable[0]}, {token}, but tiktoken would make it anyway"
        )
    by_pair = [vocab.merges[rank] for rank in used]
    if by_bytes.merges() == by_pair:
        return None
    return _first_difference(vocab, used, by_pair, by_bytes.merges())


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
