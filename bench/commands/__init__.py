"""One file per command of `python -m bench`: decide what runs, run it, make records of it."""
