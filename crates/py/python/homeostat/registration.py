"""Every world by an id of Gymnasium: ``faas/function-v2`` is ``homeostat/faas-function-v2``."""

from __future__ import annotations

from typing import Any, List, NamedTuple

import gymnasium

from . import _native
from .errors import UsageError
from .given import text_of

__all__ = ["WorldFacts", "card", "worlds"]


class WorldFacts(NamedTuple):
    """What there is to know of a world before it is made."""

    id: str
    """As the command line spells it."""
    gymnasium_id: str
    """As Gymnasium knows it."""
    is_shared: bool
    """Whether many agents share it; then ``homeostat.parallel_env`` makes it."""
    summary: str
    """One sentence."""


def worlds() -> List[WorldFacts]:
    """Every world."""
    return [
        WorldFacts(world, f"homeostat/{world.replace('/', '-', 1)}", is_shared, summary)
        for world, is_shared, summary in _native.worlds()
    ]


def card(world: str) -> str:
    """State, actions and reward of a world in words."""
    return _native.card(text_of(world, "world"))


def refuse_shared(world: str, **_: Any) -> gymnasium.Env[Any, Any]:
    """What ``gymnasium.make`` answers for a world of many agents."""
    raise UsageError(
        f"{world} is shared by many agents, and one with a single agent is needed here: "
        f'make it with homeostat.parallel_env("{world}")'
    )


def register() -> None:
    """Makes the worlds known to Gymnasium; again is no error."""
    for facts in worlds():
        if facts.gymnasium_id in gymnasium.registry:
            continue
        entry = "homeostat.registration:refuse_shared"
        vector_entry = entry
        if not facts.is_shared:
            entry = "homeostat.gymnasium_env:HomeostatEnv"
            vector_entry = "homeostat.gymnasium_env:HomeostatVectorEnv"
        gymnasium.register(
            facts.gymnasium_id,
            entry_point=entry,
            vector_entry_point=vector_entry,
            kwargs={"world": facts.id},
        )
