"""The contract of the course: ``reset() -> state`` and ``step(action) -> (state, reward)``."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from . import _native
from .errors import UsageError, WrongType
from .given import seed_of, env_settings

__all__ = ["ServerlessEnv"]

# Longer than any episode: the course ends its episodes itself.
NO_END = 1_000_000


class ServerlessEnv:
    """A serverless function on one node of eight cores.

    The state is six numbers from 0 to 1, named by :attr:`STATE`. An action is
    ``{"vertical": v, "horizontal": h}``: 128 cpu.shares more or fewer for each container
    (128, 0, -128), and a container more or fewer (1, 0, -1); a part that is left out is 0. The reward
    is ``0.3 * cpu_util + 0.7 * slo_preservation``, and a penalty of 1 for an illegal action, for no
    container under load, and for reversing the horizontal direction.

    There is no end: the caller decides how long an episode is and calls ``reset``. Settings of
    ``faas/course-v2`` are keywords, for example ``load="bursty"``.
    """

    STATE = (
        "cpu_util",
        "slo_preservation",
        "cpu_shares",
        "cpu_shares_others",
        "num_containers",
        "arrival_rate",
    )
    VERTICAL = (-128, 0, 128)
    HORIZONTAL = (-1, 0, 1)

    def __init__(
        self, seed: Optional[int] = None, steps: int = NO_END, **settings: Any
    ) -> None:
        given = env_settings({"steps": steps, **settings})
        self._native = _native.NativeEnv("faas/course-v2", given)
        self._next_seed = seed_of(seed)
        if self._next_seed is None:
            self._next_seed = int(np.random.default_rng().integers(2**63))
        self.info: Dict[str, float] = {}
        """Figures of the last step: ``p99_ms``, ``slo_violations``, ``containers`` and others."""

    @property
    def actions(self) -> List[Dict[str, int]]:
        """All nine actions."""
        return [
            {"vertical": vertical, "horizontal": horizontal}
            for vertical in self.VERTICAL
            for horizontal in self.HORIZONTAL
        ]

    def reset(self, seed: Optional[int] = None) -> NDArray[np.float32]:
        """Starts an episode; its first state. A seed restarts all random numbers."""
        given = seed_of(seed)
        first, self._next_seed = self._next_seed, None
        state: NDArray[np.float32] = self._native.reset(first if given is None else given)
        self.info = {}
        return state

    def step(self, action: Mapping[str, int]) -> Tuple[NDArray[np.float32], float]:
        """Plays ten seconds: the state after them, and the reward."""
        state, reward, _, _, self.info = self._native.step(self._choices(action))
        return state, reward

    def render(self) -> str:
        """The platform in text."""
        return self._native.render_text()

    def _choices(self, action: Mapping[str, int]) -> List[int]:
        if not isinstance(action, Mapping):
            raise WrongType(
                "an action is a dictionary such as {'vertical': 128, 'horizontal': 1}, "
                f"got {type(action).__name__}"
            )
        parts = {"vertical": self.VERTICAL, "horizontal": self.HORIZONTAL}
        strangers = [name for name in action if name not in parts]
        if strangers:
            raise UsageError(
                f"an action has the parts 'vertical' and 'horizontal', got {strangers[0]!r}"
            )
        choices = []
        for name, allowed in parts.items():
            value = action.get(name, 0)
            # An array would be compared place by place.
            if not isinstance(value, (int, float, np.number)) or value not in allowed:
                raise UsageError(f"{name} must be one of {allowed}, got {value!r}")
            choices.append(allowed.index(int(value)))
        return choices
