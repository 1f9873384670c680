"""A post-processor worked out beforehand: which parts follow each other in the finished encoding.

Steps of a post-processor change encodings one after another. Where nothing overflows, what they come to
depends on the number of sequences alone, so it is found once and each encoding is put together at once.
"""

from typing import NamedTuple

from tokenmill.compat.encoding import Encoding
from tokenmill.compat.lookup import Trim
from tokenmill.compat.parts import Part
from tokenmill.compat.post_processor import (
    ByteLevel,
    PostProcessor,
    SequencePiece,
    SpecialPiece,
    Steps,
    TemplateProcessing,
    post_process,
)


class Layout(NamedTuple):
    """Special tokens and sequences in order; sequences have their offsets trimmed first."""

    pieces: tuple[SequencePiece | SpecialPiece, ...]
    trims: tuple[bool, ...]
    """`add_prefix_space` of each time they are."""


class Arrangement:
    """A post-processor, None for none, and its layouts."""

    def __init__(self, processor: PostProcessor | None) -> None:
        self._processor = processor
        self._layouts = {is_pair: _layout(processor, is_pair=is_pair) for is_pair in (False, True)}
        self.alone = _alone(processor, self._layouts[False])

    def num_added(self, *, is_pair: bool) -> int:
        """How many tokens it adds."""
        return 0 if self._processor is None else self._processor.num_added(is_pair=is_pair)

    def finish(
        self, first: Encoding, second: Encoding | None, add_special_tokens: bool
    ) -> Encoding:
        """One encoding of one or two. Both may be changed."""
        if self._processor is None and second is None:
            return first
        layout = self._layouts[second is not None]
        is_plain = first.is_plain and (second is None or second.is_plain)
        if layout is None or not is_plain:
            return post_process(self._processor, first, second, add_special_tokens)
        parts: list[Part] = []
        ranges: dict[int, tuple[int, int]] = {}
        length = 0
        for piece in layout.pieces:
            if isinstance(piece, SpecialPiece):
                if add_special_tokens:
                    parts.append(piece.part)
                    length += len(piece.part)
                continue
            encoding = first if piece.number == 0 or second is None else second
            parts += encoding.prepared_parts(piece.type_id, layout.trims)
            ranges[piece.number] = (length, length + len(encoding))
            length += len(encoding)
        return Encoding(parts, ranges)


class Alone(NamedTuple):
    """What becomes of a text that nothing is put around: the way most calls go."""

    trims: tuple[Trim, ...]
    is_numbered: bool
    """Whether it is said to be the first sequence."""


def _alone(processor: PostProcessor | None, layout: Layout | None) -> Alone | None:
    """None if there is more to do."""
    if processor is None:
        return Alone((), is_numbered=False)
    if layout is None or layout.pieces != (SequencePiece(0, 0),):
        return None
    return Alone(tuple(Trim(keeps_one, 0) for keeps_one in layout.trims), is_numbered=True)


def _layout(processor: PostProcessor | None, *, is_pair: bool) -> Layout | None:
    """None where the steps do more than a layout can say."""
    steps = processor.steps if isinstance(processor, Steps) else (processor,)
    template = steps[-1] if steps and isinstance(steps[-1], TemplateProcessing) else None
    trims: list[bool] = []
    for step in steps if template is None else steps[:-1]:
        if not isinstance(step, ByteLevel):
            return None
        if step.trim_offsets:
            trims.append(step.add_prefix_space)
    if template is not None:
        return Layout(template.pair if is_pair else template.single, tuple(trims))
    both = (SequencePiece(0, 0), SequencePiece(1, 1))
    return Layout(both if is_pair else both[:1], tuple(trims))
