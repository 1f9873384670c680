"""Long work in units: planned, done one after another, kept until all is there."""
