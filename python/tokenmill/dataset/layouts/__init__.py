"""How token files are laid out: one module for each ecosystem that reads them."""

from tokenmill.dataset.layouts import bin, datatrove, llmc, megatron, npy
from tokenmill.dataset.layouts.layout import SPLITS, Layout, array_path, open_tokens
from tokenmill.errors import ConfigError

LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (npy.LAYOUT, bin.LAYOUT, llmc.LAYOUT, megatron.LAYOUT, datatrove.LAYOUT)
}

__all__ = ["LAYOUTS", "SPLITS", "Layout", "array_path", "layout_named", "open_tokens"]


def layout_named(name: str) -> Layout:
    """ConfigError listing the known ones if there is none of that name."""
    if name not in LAYOUTS:
        raise ConfigError(f"`{name}` is no layout of token files", f"choose {', '.join(LAYOUTS)}")
    return LAYOUTS[name]
