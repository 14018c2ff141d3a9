"""Environments of many agents the way PettingZoo's are made.

``from homeostat.zoo import faas_fleet_v3`` and then ``faas_fleet_v3.parallel_env(functions=24)``, or
``faas_fleet_v3.env()`` for agents who act one after the other. There is one such object for every
environment that many agents share: ``homeostat.zoo.__all__`` lists them.
"""

from __future__ import annotations

from typing import Any

from pettingzoo.utils.conversions import parallel_to_aec
from pettingzoo.utils.env import AECEnv

from .pettingzoo_env import HomeostatParallelEnv
from .registration import environments


class ZooModule:
    """What PettingZoo expects in the module of an environment."""

    def __init__(self, env_id: str) -> None:
        self.env_id = env_id

    def parallel_env(self, **keywords: Any) -> HomeostatParallelEnv:
        """All agents act at once."""
        return HomeostatParallelEnv(self.env_id, **keywords)

    def env(self, **keywords: Any) -> AECEnv[Any, Any, Any]:
        """One agent acts after the other. Every agent must be known beforehand: no churn."""
        return parallel_to_aec(self.parallel_env(**keywords))

    raw_env = parallel_env

    def __repr__(self) -> str:
        return f"<homeostat.zoo {self.env_id}>"


_MODULES = {
    facts.id.replace("/", "_", 1).replace("-", "_"): ZooModule(facts.id)
    for facts in environments()
    if facts.is_shared
}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> ZooModule:
    try:
        return _MODULES[name]
    except KeyError:
        raise AttributeError(
            f"module {__name__!r} has no environment {name!r}: there are {', '.join(__all__)}"
        ) from None
