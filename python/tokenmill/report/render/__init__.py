"""Draws reports; computes nothing."""
