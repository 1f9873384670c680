"""Measure tokenmill beside its peers: text files in, tables and JSON results out.

`python -m bench --help` lists the commands, docs/benchmarks.md says what is timed and why. Nothing in the
package imports this folder, and nothing here is installed with it.
"""
