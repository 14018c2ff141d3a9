"""Training, what came of it, and runs side by side: the trainer of the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .errors import Error, UsageError, WrongType
from .progress import ProgressOption, reporter
from .given import (
    AnyPath,
    Setting,
    count_of,
    file_of,
    flag_of,
    optional_file_of,
    required_seed_of,
    seed_of,
    text_of,
)
from .spaces import space_of

__all__ = [
    "Comparison",
    "Policy",
    "Run",
    "Simulation",
    "compare",
    "evaluate",
    "load_policy",
    "plot",
    "report",
    "simulate",
    "train",
]

PathOrRun = Union[AnyPath, "Run", "Simulation"]

# Sections of the configuration file, by Python's names for them, which have no hyphens. Settings
# of [run] are keywords of their own.
NAMES = _native.setting_names()
SECTIONS = {section.replace("-", "_"): section for section, _ in NAMES if section != "run"}
DEFAULT_SIMULATOR = _native.default_multi_agent_env().partition("/")[0]
RUN = {name for section, name in NAMES if section == "run"}


def train(
    algorithm: Optional[str] = None,
    env: Optional[str] = None,
    *,
    seed: Optional[int] = None,
    steps: Optional[int] = None,
    agents: Optional[int] = None,
    preset: Optional[str] = None,
    threads: Optional[int] = None,
    config: Optional[AnyPath] = None,
    run_dir: Optional[AnyPath] = None,
    resume: Optional[PathOrRun] = None,
    progress: ProgressOption = None,
    callback: Optional[Callable[[Dict[str, Any]], object]] = None,
    csv: bool = False,
    tensorboard: bool = False,
    **settings: Any,
) -> Run:
    """Trains agents and keeps everything in a run directory, as ``homeostat train`` does.

    ``algorithm`` is ``ppo``, ``dqn``, ``ddpg``, ``q-learning`` or ``reinforce``, or the method of a
    team that shares an environment: ``simppo``, ``simppo+``, ``s-rl``, ``il-rl``, ``cpq-rl``, ``ma-ppo``. Every
    other setting is a keyword: those of ``[run]`` by name (``log_every=4096``), those of a section as a
    dictionary (``ppo={"clip": 0.1}, faas={"load": "bursty"}``). Files, environment variables and
    presets count as on the command line; keywords win.

    ``progress``: ``None`` shows a bar in a notebook and on a terminal, ``True`` also writes lines
    elsewhere, ``False`` shows nothing; a function is called with a dictionary after rounds.

    ``callback`` is called with a dictionary after every round: ``step`` of ``steps``, ``return``,
    ``steps_per_s``, ``slo_violation_ratio``, ``containers``, and ``agents`` with a dictionary of each.
    If it returns ``False``, the run ends with a checkpoint and its summary says ``interrupted``. It is
    called while training goes on, so a round or two may follow.

    Ctrl-C ends the run with a checkpoint; ``homeostat.train(resume=run_dir)`` goes on bit for bit.
    """
    named = {
        "algorithm": algorithm,
        "env": None if env is None else _native.own_spelling(text_of(env, "env")),
        "seed": seed_of(seed),
        "steps": whole_of(steps),
        "agents": whole_of(agents),
        "preset": preset,
        "threads": threads,
    }
    given = {name: value for name, value in named.items() if value is not None}
    if resume is not None:
        refused = [name for name in (*given, *settings) if name != "steps"]
        refused += [name for name, value in (("config", config), ("run_dir", run_dir)) if value]
        if refused:
            raise UsageError(
                f"a run goes on with its own settings: leave out {', '.join(sorted(refused))} "
                "or start a new one; only steps may be raised"
            )
    if callback is not None and not callable(callback):
        raise WrongType(f"callback must be a function, got {type(callback).__name__}")
    show = reporter(progress)
    try:
        path, figures, timing = _native.train(
            [(f"run.{name}", value, name) for name, value in given.items()]
            + settings_of(settings),
            show,
            optional_file_of(config, "config"),
            optional_file_of(run_dir, "run_dir"),
            None if resume is None else path_of(resume),
            None if resume is None or steps is None else count_of(whole_of(steps), "steps", 1, 2**63 - 1),
            flag_of(csv, "csv"),
            flag_of(tensorboard, "tensorboard"),
            None if callback is None else decoded(callback),
        )
    finally:
        show.close()
    run = Run(path)
    run._timing = json.loads(timing)
    return run


def decoded(callback: Callable[[Dict[str, Any]], object]) -> Callable[[str], object]:
    """The same for a record as text."""
    return lambda record: callback(json.loads(record))


def settings_of(settings: Dict[str, Any]) -> List[Setting]:
    """Keywords as settings of their sections."""
    found: List[Setting] = []
    for name, value in settings.items():
        section = SECTIONS.get(name)
        if section is None:
            refuse_without_section(name, value)
            found.append((f"run.{name}", value, name))
        elif isinstance(value, dict):
            found += [(f"{section}.{key}", inner, name) for key, inner in value.items()]
        else:
            raise WrongType(
                f"cannot use keyword {name}: the section [{section}] is a dictionary of its "
                f"settings, got {type(value).__name__}"
            )
    return found


def refuse_without_section(name: str, value: Any) -> None:
    """A setting of an algorithm or a simulator belongs into the dictionary of its section."""
    owners = [section for section, other in NAMES if other == name]
    if name not in RUN and owners:
        ways = " or ".join(f"{own.replace('-', '_')}={{{name!r}: {value!r}}}" for own in owners)
        raise UsageError(f"cannot use keyword {name}: it is a setting of a section, write {ways}")


def whole_of(value: Any) -> Any:
    """``1e5`` is a float in Python, and a count to people."""
    is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return int(value) if is_whole else value


def path_of(run: PathOrRun) -> str:
    return file_of(run.path if isinstance(run, (Run, Simulation)) else run, "a run")


class Run:
    """A training run on disk. Nothing is read before it is asked for."""

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(file_of(path, "path"))
        self._timing: Optional[Dict[str, float]] = None
        if not (self.path / "config.toml").is_file():
            reason = "it has no config.toml" if self.path.exists() else "it does not exist"
            raise UsageError(f"{self.path} is not a run directory: {reason}")

    @property
    def summary(self) -> Dict[str, Any]:
        """How it ended; everything here follows from the seed."""
        file = self.path / "summary.json"
        if not file.is_file():
            raise Error(
                f"{self.path} has no summary: the training is still running or was interrupted; "
                f'homeostat.train(resume="{self.path}")'
            )
        found: Dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    @property
    def timing(self) -> Optional[Dict[str, float]]:
        """Seconds and steps per second of the part that this process trained."""
        return self._timing

    @property
    def config(self) -> str:
        """Every setting, as TOML."""
        return (self.path / "config.toml").read_text(encoding="utf-8")

    @property
    def metrics(self) -> Dict[str, NDArray[Any]]:
        """A column of every figure: ``step``, ``agent``, ``episodes``, ``return_mean``,
        ``return_recent``, ``length_mean``, and those of the algorithm. What a round did not have is
        NaN."""
        text = (self.path / "metrics.jsonl").read_text(encoding="utf-8")
        # Of a run that was killed the last line may be half of one.
        whole = text[: text.rfind("\n") + 1]
        return columns_of([json.loads(line) for line in whole.splitlines()])

    def curve(self, agent: Optional[int] = None) -> Tuple[NDArray[Any], NDArray[Any]]:
        """Steps, and the mean return of the last hundred episodes then: of one agent, or the mean of
        all who have one."""
        columns = self.metrics
        if not columns:
            return np.array([], dtype=np.int64), np.array([])
        wanted = ~np.isnan(columns["return_recent"])
        if agent is not None:
            if agent not in columns["agent"]:
                raise UsageError(f"{self.path} has no agent {agent!r}")
            wanted &= columns["agent"] == agent
        steps, places = np.unique(columns["step"][wanted], return_inverse=True)
        counts = np.bincount(places, minlength=len(steps))
        sums = np.bincount(
            places, weights=columns["return_recent"][wanted], minlength=len(steps)
        )
        return steps, sums / np.maximum(counts, 1)

    def frame(self) -> Any:
        """:attr:`metrics` as a pandas frame."""
        return frame_of(self.metrics)

    @property
    def policies(self) -> List[Path]:
        """The policy file of each agent."""
        return [Path(file) for file in _native.policy_files(self.path)]

    def policy(self, agent: int = 0, seed: int = 0) -> Policy:
        """What an agent learnt."""
        return load_policy(self.path, agent=agent, seed=seed)

    def evaluate(
        self, episodes: int = 100, seed: int = 1, stochastic: bool = False
    ) -> Dict[str, Dict[str, NDArray[np.float64]]]:
        """Plays what was learnt; see :func:`homeostat.evaluate`."""
        return evaluate(self.path, episodes, seed, stochastic)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"Run({os.fspath(self.path)!r})"


class Policy:
    """What an agent learnt: it acts and no longer learns."""

    def __init__(self, path: AnyPath, seed: int = 0) -> None:
        self.path = Path(file_of(path, "path"))
        self._seed = required_seed_of(seed)
        self._native = _native.Policy(self.path, self._seed)
        self.observation_space = space_of(self._native.observation_space)
        self.action_space = space_of(self._native.action_space)

    @property
    def env(self) -> str:
        """The environment it was trained for."""
        return self._native.env

    @property
    def algorithm(self) -> str:
        """The algorithm it was trained by."""
        return self._native.algorithm

    def act(self, obs: ArrayLike, deterministic: bool = True) -> Any:
        """The action for one observation, or one for each row of several. Not ``deterministic``,
        it is drawn from the policy, where that is a distribution."""
        return self._native.act(obs, flag_of(deterministic, "deterministic"))

    def __reduce__(self) -> Tuple[Any, ...]:
        # Another process reads the same file, and draws from the beginning of the seed.
        return Policy, (self.path, self._seed)

    def __repr__(self) -> str:
        return f"<Policy of {self.env} by {self.algorithm}>"


def load_policy(path: PathOrRun, agent: Optional[int] = None, seed: int = 0) -> Policy:
    """A policy from its file, or from a run directory; of several agents ``agent`` says which."""
    files = [Path(file) for file in _native.policy_files(path_of(path))]
    if agent is not None:
        agent = count_of(agent, "agent", 0, 2**32 - 1)
        files = [file for file in files if file.stem.rpartition("-")[2] == str(agent)] or files
        if files[0].stem.rpartition("-")[2] != str(agent):
            raise UsageError(
                f"{path_of(path)} has no policy of agent {agent}: "
                f"there are {', '.join(file.stem for file in files)}"
            )
    if len(files) > 1:
        names = ", ".join(file.stem for file in files)
        raise UsageError(f"{path_of(path)} has several policies, {names}: say agent=0")
    return Policy(files[0], seed)


def evaluate(
    path: PathOrRun, episodes: int = 100, seed: int = 1, stochastic: bool = False
) -> Dict[str, Dict[str, NDArray[np.float64]]]:
    """Plays the policies of a run, or of one file, on seeds that training did not use: ``returns`` and
    ``lengths`` of the episodes of each agent. Policies of a shared environment play it together."""
    played = _native.evaluate(
        path_of(path),
        count_of(episodes, "episodes", 0, 2**63 - 1),
        required_seed_of(seed),
        flag_of(stochastic, "stochastic"),
    )
    return {name: {"returns": returns, "lengths": lengths} for name, returns, lengths in played}


class Comparison:
    """Runs compared with one of them: a record of each, with intervals of 95 %."""

    def __init__(self, records: List[Dict[str, Any]], setting_differences: List[str]) -> None:
        self.records = records
        self.setting_differences = setting_differences
        """Settings in which the simulated systems differ; empty for a fair comparison."""

    @property
    def worlds(self) -> List[str]:
        """The name of 0.1.0 for ``setting_differences``, for one release."""
        return self.setting_differences

    @property
    def columns(self) -> Dict[str, NDArray[Any]]:
        """A NumPy array of every figure, one place for each run."""
        return columns_of(self.records)

    def frame(self) -> Any:
        """The records as a pandas frame."""
        return frame_of(self.columns)

    def __getitem__(self, place: int) -> Dict[str, Any]:
        return self.records[place]

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        rows = [["run", "figure", "mean", "difference", "shows"]]
        for record in self.records:
            for key in [name[: -len("_interval")] for name in record if name.endswith("_interval")]:
                if key.endswith("_difference"):
                    continue
                rows.append(
                    [
                        " ".join(filter(None, (record["policy"], record.get("function")))),
                        key,
                        with_interval(record[key], record[f"{key}_interval"]),
                        with_interval(
                            record.get(f"{key}_difference"),
                            record.get(f"{key}_difference_interval"),
                        ),
                        record.get(f"{key}_shows") or "",
                    ]
                )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def compare(
    *runs: PathOrRun,
    baseline: Optional[PathOrRun] = None,
    anyway: bool = False,
    per_function: bool = False,
) -> Comparison:
    """Compares runs, as ``homeostat compare`` does: simulations seed by seed,
    trainings by Welch's interval over their agents. The baseline is the first run, or the one that
    is named. ``anyway`` compares runs of systems with different settings."""
    records, differences = _native.compare(
        [path_of(run) for run in runs],
        None if baseline is None else path_of(baseline),
        flag_of(anyway, "anyway"),
        flag_of(per_function, "per_function"),
    )
    return Comparison([json.loads(record) for record in records], differences)


def simulate(
    policy: PathOrRun,
    simulator: Optional[str] = None,
    *,
    seeds: Union[int, Sequence[int]] = 1,
    duration_s: Optional[float] = None,
    alone: bool = False,
    stochastic: bool = False,
    trace: Optional[AnyPath] = None,
    durations: Optional[AnyPath] = None,
    memory: Optional[AnyPath] = None,
    nodes: Optional[int] = None,
    slo: Optional[float] = None,
    threads: Optional[int] = None,
    config: Optional[AnyPath] = None,
    run_dir: Optional[AnyPath] = None,
    progress: ProgressOption = None,
    **settings: Any,
) -> Simulation:
    """Runs an autoscaling policy in a simulator, as ``homeostat sim`` does; by default in the one that
    teams are trained in.

    ``policy`` is a name (``"hpa+vpa"``, ``"kpa"``, ``"ensure"``, ...), a policy file, or a run of
    :func:`train`. ``trace``, ``durations`` and ``memory`` are tables of the Azure Functions traces;
    ``nodes`` and ``slo`` (a multiple of a function's mean run time) go with them. Settings of the
    simulator are a dictionary: ``faas={"functions": 3}``.
    """
    several = [seeds] if isinstance(seeds, (int, np.integer)) else seeds
    try:
        numbers = [required_seed_of(seed) for seed in several]
    except TypeError:
        raise WrongType(f"seeds must be an integer or a sequence of them, got {seeds!r}") from None
    if not numbers:
        raise UsageError("simulate needs at least one seed")
    if trace is None:
        needless = (("durations", durations), ("memory", memory), ("nodes", nodes), ("slo", slo))
        for name, value in needless:
            if value is not None:
                raise UsageError(f"{name} is of a trace: give trace=FILE, or leave it out")
    try:
        length = None if duration_s is None else float(duration_s)
        factor = 5.0 if slo is None else float(slo)
    except (TypeError, ValueError):
        raise WrongType(f"duration_s and slo must be numbers, got {duration_s!r}, {slo!r}") from None
    if not 1.0 <= factor <= 1000.0:
        raise UsageError(f"slo must lie from 1 to 1000, got {slo}")
    asked = {
        "simulator": DEFAULT_SIMULATOR if simulator is None else text_of(simulator, "simulator"),
        "policy": policy if isinstance(policy, str) else path_of(policy),
        "seeds": numbers,
        "duration_s": length,
        "alone": flag_of(alone, "alone"),
        "stochastic": flag_of(stochastic, "stochastic"),
        "trace": optional_file_of(trace, "trace"),
        "durations": optional_file_of(durations, "durations"),
        "memory": optional_file_of(memory, "memory"),
        "nodes": None if nodes is None else count_of(nodes, "nodes", 1, 100_000),
        "slo": factor,
    }
    show = reporter(progress, " windows")
    try:
        path = _native.simulate(
            asked,
            settings_of(settings),
            show,
            optional_file_of(config, "config"),
            optional_file_of(run_dir, "run_dir"),
            0 if threads is None else count_of(threads, "threads", 1, 4096),
        )
    finally:
        show.close()
    return Simulation(path)


class Simulation:
    """A finished simulation on disk."""

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(file_of(path, "path"))
        summary, outcomes = _native.simulation_figures(self.path)
        self.summary: Dict[str, Any] = json.loads(summary)
        """Means over seeds; ``slo_violation_ratio`` with half of its 95 % interval."""
        self.outcomes: List[Dict[str, Any]] = json.loads(outcomes)
        """The figures of every seed, in all and of each function."""

    def frame(self) -> Any:
        """A row of every function and seed, as a pandas frame."""
        rows = [
            {"seed": outcome["seed"], "function": one["name"], "slo_ms": one["slo_ms"], **one["figures"]}
            for outcome in self.outcomes
            for one in outcome["functions"]
        ]
        return frame_of(columns_of(rows))

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"Simulation({os.fspath(self.path)!r})"


def report(*runs: PathOrRun, path: AnyPath = "report.html", title: Optional[str] = None) -> Path:
    """Writes one self-contained HTML page about simulations and training runs."""
    if not runs:
        raise UsageError("report needs at least one run")
    page = file_of(path, "path")
    shown = None if title is None else text_of(title, "title")
    _native.write_report([path_of(run) for run in runs], page, shown)
    return Path(page)


def plot(
    *runs: PathOrRun,
    path: AnyPath,
    title: str = "Learning curves",
    goals: Sequence[float] = (),
) -> Path:
    """Draws learning curves with the 95 % interval over agents as an SVG file."""
    if not runs:
        raise UsageError("plot needs at least one run")
    try:
        heights = [float(goal) for goal in goals]
    except (TypeError, ValueError):
        raise WrongType(f"goals must be a sequence of numbers, got {goals!r}") from None
    if not np.isfinite(heights).all():
        raise UsageError(f"goals must be finite, got {goals!r}")
    picture = file_of(path, "path")
    _native.draw_curves([path_of(run) for run in runs], text_of(title, "title"), heights, picture)
    return Path(picture)


def with_interval(mean: Optional[float], interval: Optional[float]) -> str:
    if mean is None:
        return ""
    return f"{mean:.4g}" if interval is None else f"{mean:.4g} +- {interval:.2g}"


def columns_of(records: List[Dict[str, Any]]) -> Dict[str, NDArray[Any]]:
    """A column of every name that any record has, in the order of their first appearance."""
    names: Dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record))
    columns: Dict[str, NDArray[Any]] = {}
    for name in names:
        values = [record.get(name) for record in records]
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            columns[name] = np.array(values, dtype=np.int64)
        elif all(value is None or isinstance(value, (int, float)) for value in values):
            numbers = [np.nan if value is None else value for value in values]
            columns[name] = np.array(numbers, dtype=np.float64)
        else:
            columns[name] = np.array(values, dtype=object)
    return columns


def frame_of(columns: Dict[str, NDArray[Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("frames need pandas: pip install pandas") from error
    return pandas.DataFrame(columns)
