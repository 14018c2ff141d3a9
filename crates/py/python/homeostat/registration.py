"""Every environment by an id of Gymnasium: ``faas/function-v2`` is ``homeostat/faas-function-v2``."""

from __future__ import annotations

from typing import Any, List, NamedTuple

import gymnasium

from . import _native
from .errors import UsageError
from .given import text_of

__all__ = ["EnvironmentFacts", "card", "environments", "worlds"]


class EnvironmentFacts(NamedTuple):
    """What is known of an environment before it is made."""

    id: str
    """As the command line spells it."""
    gymnasium_id: str
    """As Gymnasium knows it."""
    is_shared: bool
    """Whether many agents share it; then ``homeostat.parallel_env`` makes it."""
    summary: str
    """One sentence."""


def environments() -> List[EnvironmentFacts]:
    """Every environment."""
    return [
        EnvironmentFacts(env_id, f"homeostat/{env_id.replace('/', '-', 1)}", is_shared, summary)
        for env_id, is_shared, summary in _native.environments()
    ]


# The name of 0.1.0, for one release.
worlds = environments


def card(env: str) -> str:
    """State, actions and reward of an environment in words."""
    return _native.card(text_of(env, "env"))


def refuse_shared(env: str, **_: Any) -> gymnasium.Env[Any, Any]:
    """What ``gymnasium.make`` answers for an environment of many agents."""
    raise UsageError(
        f"{env} is shared by many agents, and one with a single agent is needed here: "
        f'make it with homeostat.parallel_env("{env}")'
    )


def register() -> None:
    """Registers the environments with Gymnasium; calling it again is no error."""
    for facts in environments():
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
            kwargs={"env": facts.id},
        )
