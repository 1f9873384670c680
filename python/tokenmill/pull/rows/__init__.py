"""Rows in another shape: downloaded files in, rows by split out. Pure functions of their input.

Each module has `rows(sources, choice, skipped)`: an iterator of (split, row) over the files of
`sources` (split → paths), in an order that depends on nothing but their content; what it leaves out
is counted in `skipped` by reason.
"""
