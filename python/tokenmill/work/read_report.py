"""What reading text was like: numbers that add up over units."""

from dataclasses import dataclass, field, fields


@dataclass
class ReadReport:
    """What reading and counting met. Adds up over units."""

    inputs: int = 0
    """Files, streams or objects that were opened."""
    documents: int = 0
    bytes: int = 0
    """Of text, after caps, special tokens included."""
    chars: int = 0
    capped_documents: int = 0
    skipped_records: int = 0
    replaced_sequences: int = 0
    special_tokens: int = 0
    """Occurrences cut out of the text."""
    unmatched: int = 0
    """Pretokens that no match of the pattern covered."""
    skipped: list[str] = field(default_factory=list)
    """Where and why the first records were skipped."""
    limit_reached: bool = False
    """Whether a limit ended reading before the inputs did."""
    seconds: float = 0.0
    """Wall time of reading and counting, in this process."""

    def add(self, other: "ReadReport") -> None:
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.skipped = [*self.skipped, *other.skipped][:20]
        self.limit_reached |= other.limit_reached


SUMS = tuple(each.name for each in fields(ReadReport) if each.type is int)
OF_READING = tuple(name for name in SUMS if name not in ("special_tokens", "unmatched"))
"""The sums that reading alone gives, without counting."""
