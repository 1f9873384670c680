"""What is at an output already: the same dataset, another one, or something that is not ours."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.dataset.manifest import FILE_NAME, Manifest, read_manifest
from tokenmill.errors import ConfigError
from tokenmill.work.input_records import InputRecord, same_inputs

if TYPE_CHECKING:
    from tokenmill.dataset.encode_job import EncodeJob


def find_finished(job: "EncodeJob", out: Path, *, force: bool) -> Manifest | None:
    """The manifest at `out` if it is what `job` would make, `None` if the place is free. ConfigError
    if something else is there and may not be replaced."""
    manifest = manifest_at(out)
    if manifest is None:
        return None
    if force:
        _refuse_foreign_files(out, manifest)
        return None
    difference = other_settings(job, manifest) or _other_inputs(job, manifest)
    if difference is None:
        return manifest
    raise ConfigError(
        f"`{out}` holds a dataset that was made {difference}",
        "choose another output, or pass `--force` (`force=True`) to replace it",
    )


def manifest_at(out: Path) -> Manifest | None:
    """The manifest of the dataset at `out`, `None` if nothing is there. ConfigError for something
    else."""
    manifest = read_manifest(out) if out.exists() else None
    if manifest is None and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(
            f"`{out}` exists and is not a dataset", "choose a place that does not exist yet"
        )
    return manifest


def _refuse_foreign_files(out: Path, manifest: Manifest) -> None:
    ours = {FILE_NAME, *(record.path for record in manifest.files())}
    for parent, _, names in os.walk(out):
        for name in names:
            path = Path(parent, name).relative_to(out).as_posix()
            if path not in ours:
                raise ConfigError(
                    f"`{out}` holds `{path}`, which is not tokenmill's and would be deleted",
                    "move it away first",
                )


def other_settings(job: "EncodeJob", manifest: Manifest) -> str | None:
    """In which way the dataset was made otherwise than `job` would; `None` if in none."""
    if manifest.tokenizer.sha256 != job.tokenizer.sha256:
        return (
            f"with the tokenizer `{manifest.tokenizer.sha256[:16]}…`, "
            f"not `{job.tokenizer.sha256[:16]}…`"
        )
    wanted = {
        "mode": job.settings.mode,
        "profile": None if job.profile is None else job.profile.name,
        "layout": job.settings.layout,
        "dtype": job.dtype,
        "bos": job.bos,
        "eos": job.eos,
    }
    for name, value in wanted.items():
        if getattr(manifest, name) != value:
            return f"with {name} `{getattr(manifest, name)}`, not `{value}`"
    for name, value in job.manifest_settings().items():
        if manifest.settings.get(name) != value:
            return f"with {name.replace('_', ' ')} `{manifest.settings.get(name)}`, not `{value}`"
    return None


def _other_inputs(job: "EncodeJob", manifest: Manifest) -> str | None:
    recorded = [{"bytes": each.bytes, "sha256": each.sha256} for each in manifest.inputs]
    found = [InputRecord.of(each.source) for each in job.sources]
    splits = [each.split for each in manifest.inputs]
    same_splits = splits == [each.split for each in job.sources]
    if same_splits and same_inputs(recorded, 0, found, ordered=True):
        return None
    return "from other text, or from text that cannot be compared"
