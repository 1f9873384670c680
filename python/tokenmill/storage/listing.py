"""What an address names: one object, all below a folder, or the matches of a glob."""

import re
from dataclasses import dataclass

from tokenmill.errors import SourceError
from tokenmill.storage.address import Address
from tokenmill.storage.remote import RemoteState, store_of
from tokenmill.storage.retries import DEFAULT_PATIENCE, Patience, with_retries


@dataclass(frozen=True)
class Listing:
    """Objects, sorted by path."""

    address: Address
    """What was asked for; on the Hub at the commit that its revision named when it was."""
    objects: list[tuple[Address, RemoteState]]
    is_one: bool
    """Whether the address is that of an object, not of a folder or glob."""

    def inside(self, place: Address) -> str:
        """The path of an object as seen from the folder that was listed."""
        if self.is_one:
            return place.name
        folder = self.address.fixed_folder.strip("/")
        return place.path.removeprefix(f"{folder}/") if folder else place.path


def find_objects(address: Address, patience: Patience = DEFAULT_PATIENCE) -> Listing:
    """The objects that `address` names, with size and version. SourceError if there are none."""
    address = pinned(address, patience)
    store = store_of(address)
    if address.is_pattern:
        matches = re.compile(glob_regex(address.path)).fullmatch
        folder = address.at(address.fixed_folder)
        found = with_retries(folder.shown, lambda: store.find(folder), patience)
        matching = [each for each in found if matches(each[0].path)]
        if not matching:
            raise SourceError(f"no object matches `{address.shown}`", what_is_there(found))
        return Listing(address, matching, is_one=False)
    missing = SourceError(f"`{address.shown}` holds nothing")
    if address.is_http or (address.path and not address.path.endswith("/")):
        try:
            state = with_retries(address.shown, lambda: store.stat(address), patience)
            return Listing(address, [(address, state)], is_one=True)
        except SourceError as error:  # no object of that name: a folder, perhaps
            if address.is_http:
                raise
            missing = error
    try:
        found = with_retries(address.shown, lambda: store.find(address), patience)
    except SourceError:
        raise missing from None
    if not found:
        raise missing
    return Listing(address, found, is_one=False)


def pinned(address: Address, patience: Patience = DEFAULT_PATIENCE) -> Address:
    """On the Hub, the address at the commit its revision names now: all files of a run are of one."""
    if address.scheme != "hf":
        return address
    from tokenmill.storage.hub import HubDataset

    try:
        dataset = with_retries(address.shown, HubDataset.of(address).at_commit, patience)
    except SourceError:  # a mirror without this question; a dataset that is missing is told later
        return address
    return dataset.address(address.path)


def glob_regex(pattern: str) -> str:
    """What a glob matches, as local globs do: `*` and `?` stay within a folder, `**` does not."""
    parts: list[str] = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern, flags=re.DOTALL):
        if token == "**/":
            parts.append("(?:[^/]+/)*")
        elif token == "**":
            parts.append(".*")
        elif token in ("*", "?"):
            parts.append("[^/]*" if token == "*" else "[^/]")
        elif len(token) > 1:
            inside = token[1:-1].replace("\\", "\\\\")
            parts.append(f"[{'^' + inside[1:] if inside.startswith('!') else inside}]")
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def what_is_there(found: list[tuple[Address, RemoteState]]) -> str | None:
    """A hint that names the first few."""
    listed = ", ".join(f"`{each[0].name}`" for each in found[:5])
    more = f" and {len(found) - 5:,} more" if len(found) > 5 else ""
    return f"there are {listed}{more}" if found else None
