"""Documents as token ids on disk: written, described, read back and checked."""
