"""Fetch datasets: by name, by address, from a list; resumed, checked, never disturbing a reader."""
