"""Environments that many agents share under PettingZoo's contract."""

from __future__ import annotations

from typing import Any, Dict, List, NoReturn, Optional, Tuple

import gymnasium
import numpy as np

from . import _native
from .errors import UsageError, WrongType
from .gymnasium_env import RENDER_FPS, RENDER_MODES, render_of, require_render_mode
from .given import AnyPath, env_id_of, env_settings, optional_file_of, refuse_copy, seed_of
from .spaces import space_of

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "environments of many agents need PettingZoo: pip install pettingzoo"
    ) from error

__all__ = ["HomeostatParallelEnv"]

Spaces = Dict[str, "gymnasium.spaces.Space[Any]"]


def name_of(number: int) -> str:
    """As policies and metrics name the agent."""
    return f"agent-{number}"


class HomeostatParallelEnv(ParallelEnv):  # type: ignore[misc]
    """Agents in one environment; they may join and leave during an episode.

    An agent that joined in a step is in all that the step returns, with a reward of zero, and acts
    from the next step on; an agent that left has ``terminated`` set and is gone from ``agents``. Names
    are never used twice, except after a reset with a seed. ``possible_agents`` exists only where all
    agents are known beforehand, that is without churn.

    Settings are keywords with the names of the configuration file: ``functions=24, churn=0.1``.
    ``max_cycles`` is PettingZoo's word for ``steps``.
    """

    metadata: Dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS}

    def __init__(
        self,
        env: Optional[str] = None,
        render_mode: Optional[str] = None,
        config: Optional[AnyPath] = None,
        max_cycles: Optional[int] = None,
        **settings: Any,
    ) -> None:
        self.render_mode = require_render_mode(render_mode)
        if env is None and "world" not in settings:
            env = _native.default_multi_agent_env()
        env_id = env_id_of(env, settings)
        given = env_settings(settings)
        if max_cycles is not None:
            if "steps" in settings:
                raise UsageError("max_cycles and steps are the same setting: give one of them")
            given.append(("steps", max_cycles, "max_cycles"))
        self._native = _native.NativeMultiAgentEnv(
            env_id, given, optional_file_of(config, "config")
        )
        name = self._native.id.replace("/", "_", 1).replace("-", "_")
        self.metadata = {**self.metadata, "name": name, "is_parallelizable": True}
        possible = self._native.possible_agents
        if possible is not None:
            self.possible_agents = [name_of(number) for number in possible]
        self.agents: List[str] = []
        self.observation_spaces: Spaces = {}
        self.action_spaces: Spaces = {}
        self._np_random: Optional[np.random.Generator] = None

    def reset(
        self, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None
    ) -> Tuple[Dict[str, Any], Dict[str, Dict[str, Any]]]:
        seed = seed_of(seed)
        if seed is None and self._np_random is None:
            # Without any seed episodes differ from process to process.
            seed = int(np.random.default_rng().integers(2**63))
        self._np_random = self._np_random or np.random.default_rng(seed)
        observations = {name_of(number): obs for number, obs in self._native.reset(seed)}
        self.agents = list(observations)
        # Spaces of those who left are let go, or they would gather for ever.
        for kept in (self.observation_spaces, self.action_spaces):
            for name in [name for name in kept if name not in observations]:
                del kept[name]
        return observations, {name: {} for name in self.agents}

    def step(
        self, actions: Dict[str, Any]
    ) -> Tuple[
        Dict[str, Any],
        Dict[str, float],
        Dict[str, bool],
        Dict[str, bool],
        Dict[str, Dict[str, Any]],
    ]:
        played, joined = self._native.step(self._in_order(actions))
        observations: Dict[str, Any] = {}
        rewards: Dict[str, float] = {}
        terminations: Dict[str, bool] = {}
        truncations: Dict[str, bool] = {}
        infos: Dict[str, Dict[str, Any]] = {}
        self.agents = []
        for number, obs, reward, terminated, truncated, info in played:
            name = name_of(number)
            observations[name], rewards[name], infos[name] = obs, reward, info
            terminations[name], truncations[name] = terminated, truncated
            if not terminated and not truncated:
                self.agents.append(name)
        for number, obs in joined:
            name = name_of(number)
            observations[name], rewards[name], infos[name] = obs, 0.0, {}
            terminations[name] = truncations[name] = False
            self.agents.append(name)
        return observations, rewards, terminations, truncations, infos

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self._space(self.observation_spaces, self._native.observation_space, agent)

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self._space(self.action_spaces, self._native.action_space, agent)

    def state(self) -> np.ndarray[Any, Any]:
        """The observations of all agents in one row, in the order of ``agents``."""
        return self._native.state()

    def render(self) -> Any:
        return render_of(self._native, self.render_mode)

    def close(self) -> None:
        self._native.close()

    def __reduce__(self) -> NoReturn:
        refuse_copy(self._native.id)

    def _in_order(self, actions: Dict[str, Any]) -> List[Any]:
        """The actions in the order of the agents; one for each agent and no other."""
        if not isinstance(actions, dict):
            raise WrongType(
                f"{self._native.id} expects a dictionary of actions by agent, "
                f"got {type(actions).__name__}"
            )
        if not self.agents:
            # There are no agents before the first reset and after the last step: the error says which.
            return []
        missing = [name for name in self.agents if name not in actions]
        strangers = [name for name in actions if name not in self.agents]
        if missing or strangers:
            said = [f"none for {', '.join(missing)}"] if missing else []
            said += [f"one for {', '.join(map(str, strangers))}"] if strangers else []
            raise UsageError(
                f"{self._native.id} expects an action for each of its {len(self.agents)} living "
                f"agents, got {' and '.join(said)}"
            )
        return [actions[name] for name in self.agents]

    def _space(
        self, kept: Spaces, described: Tuple[Any, ...], agent: str
    ) -> gymnasium.spaces.Space[Any]:
        """The same object for the same agent, so that seeding it lasts."""
        possible = getattr(self, "possible_agents", None)
        if possible is not None and agent not in possible:
            raise UsageError(
                f"{self._native.id} has no agent {agent!r}: "
                f"there are {possible[0]} to {possible[-1]}"
            )
        if agent not in kept:
            kept[agent] = space_of(described)
        return kept[agent]
