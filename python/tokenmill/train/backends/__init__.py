"""Ways to learn merges from counts. All learn the same ones."""
