"""The exceptions tokenmill raises, from both languages.

Each says what is wrong, where, what was found and what was expected, and inherits the builtin people would
reach for. A likely way out goes into `hint`, printed on a line of its own.
"""


class TokenmillError(Exception):
    """Parent of every error tokenmill raises on purpose."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint) if hint is not None else super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class SourceError(TokenmillError, ValueError):
    """Text cannot be read: a missing file, a broken line, invalid UTF-8, a corrupt archive."""


class FormatError(TokenmillError, ValueError):
    """A file of counts or a tokenizer is not what its format promises."""


class VocabError(TokenmillError, ValueError):
    """A vocab, a merge, a special token or a token id breaks a rule."""


class ConfigError(TokenmillError, ValueError):
    """A setting, or two settings together, make no sense."""


class DeviceError(TokenmillError, RuntimeError):
    """A device that was asked for is not there."""
