"""What callers give, checked: whatever is refused is named with what was expected."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NoReturn, Optional, Tuple, Union

import numpy as np

from .errors import UsageError, WrongType

__all__: List[str] = []

Setting = Tuple[str, Any, str]
AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# Copies of an environment that one process may hold, as many as the trainer allows.
MAX_COPIES = 65_536


def env_id_of(env: Any, settings: Dict[str, Any]) -> str:
    """The id of an environment. ``world`` is the keyword of 0.1.0, accepted for one release."""
    if env is None and "world" in settings:
        env = settings.pop("world")
    return text_of(env, "env")


def env_settings(keywords: Dict[str, Any]) -> List[Setting]:
    """Keywords of an environment as settings of its simulator's section."""
    return [(name, value, name) for name, value in keywords.items()]


def whole_number(value: Any) -> Optional[int]:
    """Python's integer for any kind of integer; nothing for whatever is none, arrays included."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return None
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        return None


def seed_of(seed: Any) -> Optional[int]:
    """A seed as the environments take it: nothing, or a number of 64 bits."""
    if seed is None:
        return None
    number = whole_number(seed)
    if number is None:
        raise WrongType(f"a seed is an integer or None, got {type(seed).__name__}")
    if not 0 <= number < 2**64:
        raise UsageError(f"a seed lies from 0 to 2**64 - 1, got {number}")
    return number


def required_seed_of(seed: Any) -> int:
    number = seed_of(seed)
    if number is None:
        raise WrongType("a seed is an integer here, got None")
    return number


def count_of(value: Any, name: str, least: int, most: int) -> int:
    """A number of things."""
    number = None if isinstance(value, (bool, np.bool_)) else whole_number(value)
    if number is None:
        raise WrongType(f"{name} must be an integer, got {value!r}")
    if not least <= number <= most:
        raise UsageError(f"{name} must lie from {least} to {most}, got {number}")
    return number


def flag_of(value: Any, name: str) -> bool:
    """A truth value, and nothing that merely has one."""
    if not isinstance(value, (bool, np.bool_)):
        raise WrongType(f"{name} must be True or False, got {value!r}")
    return bool(value)


def text_of(value: Any, name: str) -> str:
    """A text that every system can write."""
    if not isinstance(value, str):
        raise WrongType(f"{name} must be a text, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} must be Unicode text, got {value!r}") from None
    return value


def file_of(path: Any, name: str) -> str:
    """A path as text; bytes that are none stay what they are."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise WrongType(f"{name} must be a path, got {type(path).__name__}") from None


def optional_file_of(path: Any, name: str) -> Optional[str]:
    return None if path is None else file_of(path, name)


def refuse_copy(env_id: str) -> NoReturn:
    """What pickling and copying an environment raise: it is in the middle of an episode."""
    raise WrongType(
        f"{env_id} can be neither pickled nor copied: make another where it is needed, "
        "with the same keywords"
    )
