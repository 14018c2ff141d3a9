"""Environments of one agent under Gymnasium's contracts."""

from __future__ import annotations

from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple, Union

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import _native
from .errors import UsageError, WrongType
from .given import (
    MAX_COPIES,
    AnyPath,
    count_of,
    flag_of,
    optional_file_of,
    refuse_copy,
    seed_of,
    env_id_of,
    env_settings,
)
from .spaces import space_of

__all__ = ["HomeostatEnv", "HomeostatVectorEnv"]

RENDER_MODES = ["ansi", "rgb_array"]
# An episode of fifty steps takes a little over six seconds to watch.
RENDER_FPS = 8


def require_render_mode(render_mode: Optional[str]) -> Optional[str]:
    if render_mode is None or render_mode in RENDER_MODES:
        return render_mode
    raise UsageError(f"render_mode must be None, 'ansi' or 'rgb_array', got {render_mode!r}")


def render_of(native: Any, render_mode: Optional[str]) -> Any:
    """What an environment looks like in the mode it was made with; a warning and nothing without one."""
    if render_mode == "ansi":
        return native.render_text()
    if render_mode == "rgb_array":
        return native.render_pixels()
    gymnasium.logger.warn(
        "nothing to render: make the environment with render_mode='ansi' or 'rgb_array'"
    )
    return None


class HomeostatEnv(gymnasium.Env[Any, Any]):
    """One agent in one environment.

    Settings of the ``faas/...`` environments are keywords with the names of the configuration file:
    ``gymnasium.make("homeostat/faas-function-v2", load="bursty", steps=100)``. ``config`` is such a
    file, for example the ``config.toml`` of a run; keywords win over it.
    """

    metadata: Dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS}

    def __init__(
        self,
        env: Optional[str] = None,
        render_mode: Optional[str] = None,
        config: Optional[AnyPath] = None,
        **settings: Any,
    ) -> None:
        self.render_mode = require_render_mode(render_mode)
        self._native = _native.NativeEnv(
            env_id_of(env, settings), env_settings(settings), optional_file_of(config, "config")
        )
        self.observation_space = space_of(self._native.observation_space)
        self.action_space = space_of(self._native.action_space)
        self._is_seeded = False

    @property
    def card(self) -> str:
        """State, actions and reward in words."""
        return self._native.card

    def reset(
        self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None
    ) -> Tuple[Any, Dict[str, Any]]:
        seed = seed_of(seed)
        super().reset(seed=seed)
        if seed is None and not self._is_seeded:
            # Without any seed episodes differ from process to process, as Gymnasium's do.
            seed = int(self.np_random.integers(2**63))
        observation = self._native.reset(seed)
        self._is_seeded = True
        return observation, {}

    def step(self, action: Any) -> Tuple[Any, float, bool, bool, Dict[str, Any]]:
        return self._native.step(action)

    def render(self) -> Any:
        return render_of(self._native, self.render_mode)

    def close(self) -> None:
        self._native.close()

    def __reduce__(self) -> NoReturn:
        refuse_copy(self._native.id)


class HomeostatVectorEnv(VectorEnv[Any, Any, Any]):
    """Copies of one environment, stepped together in one call without the interpreter's lock.

    Copy ``i`` of ``reset(seed=s)`` is seeded with ``s + i``, as in Gymnasium's own. Observations are
    written straight into the array that is returned. With ``copy=True``, the default, that is a new
    one in each call and yours to keep; with ``copy=False`` it is always the same one, and the next
    call overwrites it.

    When an episode ends, ``infos`` has ``episode_return`` and ``episode_length`` of those copies, with
    masks ``_episode_return`` and ``_episode_length``; with ``AutoresetMode.SAME_STEP`` also
    ``final_obs`` and ``final_info``.
    """

    metadata: Dict[str, Any] = {
        "render_modes": RENDER_MODES,
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        env: Optional[str] = None,
        num_envs: int = 1,
        render_mode: Optional[str] = None,
        config: Optional[AnyPath] = None,
        autoreset_mode: Union[str, AutoresetMode] = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        self.render_mode = require_render_mode(render_mode)
        mode = getattr(autoreset_mode, "value", autoreset_mode)
        num_envs = count_of(num_envs, "num_envs", 1, MAX_COPIES)
        self._native = _native.NativeVectorEnv(
            env_id_of(env, settings),
            num_envs,
            env_settings(settings),
            optional_file_of(config, "config"),
            str(mode),
            flag_of(copy, "copy"),
        )
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = space_of(self._native.observation_space)
        self.single_action_space = space_of(self._native.action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._is_seeded = False
        self._is_plain = isinstance(self.single_observation_space, gymnasium.spaces.Box)

    def reset(
        self,
        *,
        seed: Union[int, Sequence[Optional[int]], None] = None,
        options: Optional[Dict[str, Any]] = None,
    ) -> Tuple[Any, Dict[str, Any]]:
        """Starts episodes in all copies, or in those of ``options["reset_mask"]``."""
        seeds = self._seeds_of(seed)
        if options is not None and not isinstance(options, dict):
            raise WrongType(f"options must be a dictionary, got {type(options).__name__}")
        mask = None
        if options is not None and options.get("reset_mask") is not None:
            mask = np.asarray(options["reset_mask"])
            if mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
                raise UsageError(
                    f"reset_mask must be of bool and of shape ({self.num_envs},), "
                    f"got {mask.dtype} of shape {mask.shape}"
                )
        observations = self._native.reset(seeds, mask)
        self._is_seeded = True
        return self._in_their_space(observations), {}

    def step(self, actions: Any) -> Tuple[Any, Any, Any, Any, Dict[str, Any]]:
        observations, rewards, terminations, truncations, figures, ended = self._native.step(actions)
        infos: Dict[str, Any] = {}
        if figures is not None:
            names, rows, is_there = figures
            for name, row in zip(names, rows):
                infos[name] = row
                infos[f"_{name}"] = is_there.copy()
        if ended is not None:
            self._add_ended(infos, ended)
        if not self._is_plain:
            observations = self._in_their_space(observations)
        return observations, rewards, terminations, truncations, infos

    def render(self) -> Any:
        rendered = render_of(self._native, self.render_mode)
        return None if rendered is None else tuple(rendered)

    def close_extras(self, **kwargs: Any) -> None:
        # Gymnasium also closes what could not be made.
        native = getattr(self, "_native", None)
        if native is not None:
            native.close()

    def __reduce__(self) -> NoReturn:
        refuse_copy(self._native.id)

    def _seeds_of(self, seed: Any) -> List[Optional[int]]:
        if seed is None:
            super().reset(seed=None)
            if self._is_seeded:
                return [None] * self.num_envs
            # Without any seed episodes differ from process to process, as Gymnasium's do.
            return [int(drawn) for drawn in self.np_random.integers(2**63, size=self.num_envs)]
        if isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim > 0):
            if len(seed) != self.num_envs:
                raise UsageError(f"{self.num_envs} copies need as many seeds, got {len(seed)}")
            return [seed_of(one) for one in seed]
        first = seed_of(seed)
        assert first is not None
        super().reset(seed=first)
        return [(first + place) % 2**64 for place in range(self.num_envs)]

    def _in_their_space(self, observations: Any) -> Any:
        if self._is_plain:
            return observations
        numbers = observations.astype(np.int64)
        is_single = isinstance(self.single_observation_space, gymnasium.spaces.Discrete)
        return numbers[:, 0] if is_single else numbers

    def _add_ended(self, infos: Dict[str, Any], ended: Any) -> None:
        places, returns, lengths, final_obs = ended
        mask = np.zeros(self.num_envs, dtype=np.bool_)
        mask[places] = True
        for name, values in (("episode_return", returns), ("episode_length", lengths)):
            row = np.zeros(self.num_envs, dtype=values.dtype)
            row[places] = values
            infos[name], infos[f"_{name}"] = row, mask.copy()
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return
        last = np.full(self.num_envs, None, dtype=object)
        for place, obs in zip(places, self._in_their_space(final_obs)):
            last[place] = obs
        # The figures are those of the step that ended the episode: nothing is known of the next.
        final_info: Dict[str, Any] = {}
        for name in [name for name in infos if f"_{name}" in infos and name[:8] != "episode_"]:
            final_info[name] = np.where(mask, infos[name], 0.0)
            final_info[f"_{name}"] = mask.copy()
            infos[f"_{name}"] = infos[f"_{name}"] & ~mask
            infos[name] = np.where(mask, 0.0, infos[name])
        infos["final_obs"], infos["_final_obs"] = last, mask.copy()
        infos["final_info"], infos["_final_info"] = final_info, mask.copy()
