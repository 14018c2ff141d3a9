"""Gymnasium's spaces for those of the worlds, and settings for keywords."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from gymnasium import spaces

from .errors import UsageError, WrongType

__all__: List[str] = []

Setting = Tuple[str, Any, str]


def space_of(described: Tuple[Any, ...]) -> spaces.Space[Any]:
    """The space that the compiled part describes by a word and its numbers."""
    kind = described[0]
    if kind == "box":
        return spaces.Box(described[1], described[2], dtype=np.float32)
    if kind == "discrete":
        return spaces.Discrete(described[1])
    return spaces.MultiDiscrete(described[1])


def world_settings(keywords: Dict[str, Any]) -> List[Setting]:
    """Keywords of a world as settings of its section."""
    return [(f"faas.{name}", value, name) for name, value in keywords.items()]


def seed_of(seed: Any) -> Optional[int]:
    """A seed as the worlds take it: nothing, or a number of 64 bits."""
    if seed is None:
        return None
    try:
        number = seed.__index__()
    except AttributeError:
        raise WrongType(f"a seed is an integer or None, got {type(seed).__name__}") from None
    if not 0 <= number < 2**64:
        raise UsageError(f"a seed lies from 0 to 2**64 - 1, got {number}")
    return int(number)
