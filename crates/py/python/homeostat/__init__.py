"""Learning controllers that keep services inside their latency objectives at the lowest cost.

Environments: ``gymnasium.make("homeostat/faas-function-v2")`` after ``import homeostat``,
:func:`parallel_env` for those that many agents share, :func:`environments` lists all. Learning:
:func:`train`, :func:`load_policy`, :func:`evaluate`, :func:`compare`, :func:`plot`. Autoscaling
policies: :func:`simulate`; :func:`report` writes a page about runs of both kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import errors
from ._native import __version__, default_settings
from .course import ServerlessEnv
from .errors import Error, UsageError
from .gymnasium_env import HomeostatEnv, HomeostatVectorEnv
from .registration import EnvironmentFacts, card, environments, register, worlds
from .runs import (
    Comparison,
    Policy,
    Run,
    Simulation,
    compare,
    evaluate,
    load_policy,
    plot,
    report,
    simulate,
    train,
)

if TYPE_CHECKING:
    from .pettingzoo_env import HomeostatParallelEnv

__all__ = [
    "Comparison",
    "EnvironmentFacts",
    "Error",
    "HomeostatEnv",
    "HomeostatVectorEnv",
    "Policy",
    "Run",
    "ServerlessEnv",
    "Simulation",
    "UsageError",
    "__version__",
    "card",
    "compare",
    "default_settings",
    "environments",
    "errors",
    "evaluate",
    "load_policy",
    "parallel_env",
    "plot",
    "report",
    "simulate",
    "train",
    "worlds",
]


def parallel_env(env: Optional[str] = None, **keywords: Any) -> HomeostatParallelEnv:
    """An environment that many agents share, as a ``pettingzoo.ParallelEnv``; by default the one
    that teams are trained in (``faas/fleet-v3``)."""
    from .pettingzoo_env import HomeostatParallelEnv

    return HomeostatParallelEnv(env, **keywords)


register()
