"""What is raised. Every text is that of the command line."""

from __future__ import annotations

import gymnasium.error

__all__ = ["Closed", "Error", "ResetNeeded", "UsageError", "WrongType"]


class Error(Exception):
    """Something failed."""


class UsageError(Error, ValueError):
    """A call that its caller can mend: the text says what was expected and what came."""


class WrongType(Error, TypeError):
    """Something of another type was expected."""


class ResetNeeded(Error, gymnasium.error.ResetNeeded):
    """A step before the first reset, or after the end of an episode."""


class Closed(Error, gymnasium.error.ClosedEnvironmentError):
    """An environment that was closed."""
