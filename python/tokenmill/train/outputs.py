"""The folder a training writes: whether it is done already, may be replaced, and what its manifest
says.

Asked before any work starts, so that nobody trains for an hour to learn that the place is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.tokenizer.manifest import FILE_NAME, Manifest, read_manifest
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.train.counts import PretokenCounts
from tokenmill.train.origin import Origin
from tokenmill.work.input_records import same_inputs


@dataclass(frozen=True)
class TrainedFolder:
    """An output folder, and the settings of the training that wants it."""

    path: Path
    settings: Mapping[str, object]
    force: bool

    def finished_from_inputs(self, origin: Origin, *, ordered: bool) -> Tokenizer | None:
        """The tokenizer there, if it was trained from these inputs with these settings.

        ConfigError if something else is there and may not be replaced."""

        def same(parents: Mapping[str, Any]) -> bool:
            if "counts" in parents or "inputs" not in parents:
                return False
            unread = parents.get("inputs_unread", 0)
            return same_inputs(parents["inputs"], unread, origin.inputs, ordered=ordered)

        return self._finished(same)

    def finished_from_counts(self, counts: PretokenCounts) -> Tokenizer | None:
        """The same for a training from counts."""
        expected = parents_of_counts(counts)
        return self._finished(expected.__eq__)

    def _finished(self, same_parents: Callable[[Mapping[str, Any]], bool]) -> Tokenizer | None:
        manifest = self._manifest()
        if manifest is None or self.force:
            return None
        if manifest.settings == dict(self.settings) and same_parents(manifest.parents):
            return Tokenizer.load(self.path)
        raise ConfigError(
            f"`{self.path}` holds a tokenizer that was trained {self._difference(manifest)}",
            "choose another output, or pass `--force` (`force=True`) to replace it",
        )

    def _difference(self, manifest: Manifest) -> str:
        for name, wanted in self.settings.items():
            if manifest.settings.get(name) != wanted:
                return (
                    f"with {name.replace('_', ' ')} `{manifest.settings.get(name)}`, not `{wanted}`"
                )
        return "from other text, or from text that cannot be compared"

    def _manifest(self) -> Manifest | None:
        """The manifest there, `None` if the place is free. ConfigError for files that are not ours."""
        if not self.path.exists():
            return None
        names = sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else None
        if names == []:
            return None
        manifest = None if names is None else read_manifest(self.path)
        if names is None or manifest is None:
            raise ConfigError(
                f"`{self.path}` exists and is not a tokenizer folder",
                "choose a folder that does not exist yet",
            )
        foreign = [name for name in names if name not in {*manifest.files, FILE_NAME}]
        if self.force and foreign:
            raise ConfigError(
                f"`{self.path}` holds `{foreign[0]}`, which is not tokenmill's and would be deleted",
                "move it away first",
            )
        return manifest


def parents_of_inputs(origin: Origin, *, ordered: bool) -> dict[str, object]:
    """What a manifest says about the text. Where order does not matter it does not show, either."""
    records = [record.as_json() for record in origin.inputs]
    inputs = {"inputs": records if ordered else sorted(records, key=str)}
    return {**inputs, "inputs_unread": origin.inputs_unread} if origin.inputs_unread else {**inputs}


def parents_of_counts(counts: PretokenCounts) -> dict[str, object]:
    """What a manifest says about counts that were given: their content, and what they were made
    from."""
    return {
        "counts": {"content_sha256": counts.content_sha256(), "min_count": counts.origin.min_count},
        "inputs": [record.as_json() for record in counts.origin.inputs],
    }
