"""What a pull fetches: every object with the path it gets, before a byte is fetched.

Paths come from the catalogue or from a server; the latter are checked (storage/names.py), and no two
may be one file.
"""

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenmill.errors import ConfigError, SourceError
from tokenmill.pull.catalogue import (
    TRAIN,
    VALIDATION,
    Files,
    FixedFiles,
    ListedFiles,
    NamedDataset,
    NumberedShards,
)
from tokenmill.sources.shards import chosen_numbers
from tokenmill.storage.address import Address, parse_address, require_address
from tokenmill.storage.files import unreadable
from tokenmill.storage.listing import find_objects, pinned
from tokenmill.storage.names import require_distinct, require_safe_path
from tokenmill.storage.remote import RemoteState
from tokenmill.storage.retries import Patience, with_retries

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class Item:
    """One object and its place in the folder."""

    address: Address
    path: str
    """With slashes, relative to the folder."""
    split: str | None = None
    sha256: str | None = None
    """What a person says the content is."""
    state: RemoteState | None = None
    """What the server says; `None` until it is asked."""

    @property
    def expected_sha256(self) -> str | None:
        return self.sha256 or (None if self.state is None else self.state.sha256)


@dataclass(frozen=True)
class Items:
    """All of a pull, and where they come from."""

    items: list[Item]
    base: Address | None
    """The folder they all lie in; `None` for a list of addresses."""
    total: int
    """How many there would be without `--shards`."""

    @property
    def revision(self) -> str | None:
        """The commit on the Hub, if that is where they are."""
        if self.base is None or self.base.scheme != "hf":
            return None
        return self.base.place.partition("@")[2] or None


def dataset_items(
    dataset: NamedDataset,
    config: str,
    shards: str | None,
    base_url: str | None,
    patience: Patience,
) -> Items:
    """The files of a named dataset, each in a folder called after its split."""
    given = f"hf://datasets/{dataset.repository}" if base_url is None else base_url
    base = pinned(require_address(given), patience)
    files = dataset.files_of(config)
    if shards is not None and isinstance(files, FixedFiles):
        raise ConfigError(f"`{dataset.name}` has no numbered shards, so `--shards` does not apply")
    if isinstance(files, ListedFiles):
        return _listed(base, files, shards, patience)
    paths = _known_paths(dataset, files, shards)
    items = [Item(base.below(path), _local_path(path, split), split) for path, split in paths]
    total = files.last + 1 if isinstance(files, NumberedShards) else len(items)
    return Items(_with_listed_states(items, patience), base, total)


def _known_paths(
    dataset: NamedDataset, files: Files, shards: str | None
) -> Iterable[tuple[str, str]]:
    if isinstance(files, FixedFiles):
        return [(path, split) for split, paths in files.paths.items() for path in paths]
    assert isinstance(files, NumberedShards)
    numbers = chosen_numbers(range(files.last + 1), shards or files.default, dataset.name)
    return [
        (files.pattern.format(number), VALIDATION if number == files.last else TRAIN)
        for number in numbers
    ]


def _listed(base: Address, files: ListedFiles, shards: str | None, patience: Patience) -> Items:
    listing = find_objects(base.at(f"{base.path}/{files.pattern}".lstrip("/")), patience)
    found = listing.objects
    chosen = range(len(found))
    if shards is not None:
        chosen = chosen_numbers(range(len(found)), shards, base.shown)
    items: list[Item] = []
    for number in chosen:
        place, state = found[number]
        path = require_safe_path(place.name, f"the listing of `{base.shown}`")
        items.append(Item(place, _local_path(path, TRAIN), TRAIN, state=state))
    return Items(items, base, len(found))


def _local_path(path: str, split: str) -> str:
    return f"{split}/{posixpath.basename(path)}"


def _with_listed_states(items: list[Item], patience: Patience) -> list[Item]:
    """On the Hub a listing of each folder tells size and sha256 of all files at once. Elsewhere, and
    on mirrors that do not list, every file is asked for its own."""
    if not items or items[0].address.scheme != "hf":
        return items
    from tokenmill.storage.hub import HubStore

    known: dict[str, RemoteState] = {}
    for folder in sorted({posixpath.dirname(item.address.path) for item in items}):
        place = items[0].address.at(folder)
        try:
            found = with_retries(
                place.shown, lambda place=place: HubStore().find(place, recursive=False), patience
            )
        except SourceError:
            return items
        known |= {address.path: state for address, state in found}
    missing = [item for item in items if item.address.path not in known]
    if missing:
        raise SourceError(f"`{missing[0].address.shown}` does not exist")
    return [replace(item, state=known[item.address.path]) for item in items]


def address_items(texts: Sequence[str], sha256: str | None, patience: Patience) -> Items:
    """What addresses name, and what text files of addresses name."""
    items: list[Item] = []
    for text in texts:
        address = parse_address(text)
        if address is None:
            for line, stated in read_list(Path(text)):
                items.extend(_named_by(line, stated, patience))
        else:
            items.extend(_named_by(address, None, patience))
    if sha256 is not None:
        if len(items) != 1:
            raise ConfigError(f"`--sha256` is for one file, but {len(items):,} are named")
        items = [replace(items[0], sha256=require_sha256(sha256))]
    require_distinct_items(items)
    return Items(items, None, len(items))


def require_distinct_items(items: Sequence[Item]) -> None:
    """SourceError if two of them would be one file."""
    where: dict[str, str] = {}
    for item in items:
        if item.path in where:
            raise SourceError(
                f"`{where[item.path]}` and `{item.address.shown}` would both be written to "
                f"`{item.path}`",
                "pull them into two folders",
            )
        where[item.path] = item.address.shown
    require_distinct(where)


def _named_by(address: Address, sha256: str | None, patience: Patience) -> list[Item]:
    if address.is_http:
        path = require_safe_path(address.name, f"`{address.shown}`")
        return [Item(address, path, sha256=sha256)]
    listing = find_objects(address, patience)
    if sha256 is not None and not listing.is_one:
        raise ConfigError(f"`{address.shown}` is more than one file, so it has no sha256")
    named = [(listing.inside(place), place, state) for place, state in listing.objects]
    visible = [each for each in named if "/." not in f"/{each[0]}"]
    if not visible:
        raise SourceError(f"`{address.shown}` holds hidden files only")
    where = f"the listing of `{address.shown}`"
    return [
        Item(place, require_safe_path(path, where), sha256=sha256, state=state)
        for path, place, state in visible
    ]


def read_list(path: Path) -> list[tuple[Address, str | None]]:
    """The addresses of a text file, one on each line, with or without a sha256 beside it; blank
    lines and those that start with `#` are passed over."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise SourceError(f"`{path}` is no list of addresses: it is not UTF-8") from error
    found: list[tuple[Address, str | None]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        hashes = [word for word in words if _SHA256.fullmatch(word)]
        others = [word for word in words if word not in hashes]
        address = parse_address(others[0]) if len(others) == 1 else None
        if len(hashes) > 1 or address is None:
            raise SourceError(
                f"`{path}:{number}` is no address with or without a sha256: `{line.strip()[:80]}`"
            )
        found.append((address, hashes[0].lower() if hashes else None))
    if not found:
        raise SourceError(f"`{path}` lists no address")
    return found


def require_sha256(text: str) -> str:
    """`text` in lower case if it is a sha256 in hex."""
    if not _SHA256.fullmatch(text):
        raise ConfigError(f"`{text}` is no sha256: that is 64 digits from 0 to f")
    return text.lower()
