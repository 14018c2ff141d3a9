"""Worlds of many agents the way PettingZoo's are made.

``from homeostat.zoo import faas_fleet_v1`` and then ``faas_fleet_v1.parallel_env(functions=24)``, or
``faas_fleet_v1.env()`` for agents who act one after the other.
"""

from __future__ import annotations

from typing import Any

from pettingzoo.utils.conversions import parallel_to_aec
from pettingzoo.utils.env import AECEnv

from .pettingzoo_env import HomeostatParallelEnv

__all__ = ["faas_chain_v1", "faas_fleet_v1", "faas_fleet_v2", "toy_roll_call_v1"]


class ZooModule:
    """What PettingZoo expects in the module of an environment."""

    def __init__(self, world: str) -> None:
        self.world = world

    def parallel_env(self, **keywords: Any) -> HomeostatParallelEnv:
        """Everybody acts at once."""
        return HomeostatParallelEnv(self.world, **keywords)

    def env(self, **keywords: Any) -> AECEnv[Any, Any, Any]:
        """One agent acts after the other. It needs to know who may ever come: no churn."""
        return parallel_to_aec(self.parallel_env(**keywords))

    raw_env = parallel_env

    def __repr__(self) -> str:
        return f"<homeostat.zoo {self.world}>"


faas_chain_v1 = ZooModule("faas/chain-v1")
faas_fleet_v1 = ZooModule("faas/fleet-v1")
faas_fleet_v2 = ZooModule("faas/fleet-v2")
toy_roll_call_v1 = ZooModule("toy/roll-call-v1")
