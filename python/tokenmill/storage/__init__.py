"""Bytes by address, whatever they mean."""
