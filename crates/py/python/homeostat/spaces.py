"""Gymnasium's spaces for those of the environments."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
from gymnasium import spaces

__all__: List[str] = []


def space_of(described: Tuple[Any, ...]) -> spaces.Space[Any]:
    """The space that the compiled part describes by a word and its numbers."""
    kind = described[0]
    if kind == "box":
        return spaces.Box(described[1], described[2], dtype=np.float32)
    if kind == "discrete":
        return spaces.Discrete(described[1])
    return spaces.MultiDiscrete(described[1])
