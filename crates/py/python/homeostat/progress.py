"""A bar while a run goes on: in a notebook, on a terminal, or lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, List, Optional, Union

from .errors import WrongType

__all__: List[str] = []

ProgressOption = Union[bool, None, Callable[..., object]]

# Seconds between two plain lines.
PLAIN_EVERY = 2.0


def thousands(number: float) -> str:
    return f"{number:,.0f}"


def describe(reached: Optional[float] = None, speed: Optional[float] = None) -> str:
    if speed is None:
        return ""
    shown = "-" if reached is None else f"{reached:.2f}"
    return f"return {shown}  {thousands(speed)} steps/s"


class Silence:
    """Shows nothing."""

    def __call__(self, *told: Any) -> None:
        pass

    def close(self) -> None:
        pass


class PlainLines:
    """A line every two seconds, for logs."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, *told: Any) -> None:
        if len(told) == 1:
            print(told[0], file=sys.stderr)
            return
        step, total, *rest = told
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY or step >= total:
            self._last = now
            what = "step" if rest else "windows"
            print(f"{what} {step}/{total}  {describe(*rest)}".rstrip(), file=sys.stderr)

    def close(self) -> None:
        pass


class TerminalBar:
    """One line that is written over and over; needs nothing installed."""

    WIDTH = 24

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: Optional[int] = None
        self._length = 0

    def __call__(self, *told: Any) -> None:
        if len(told) == 1:
            self._write(str(told[0]))
            self._end_line()
            return
        step, total, *rest = told
        filled = self.WIDTH * step // total
        bar = "█" * filled + "░" * (self.WIDTH - filled)
        self._write(
            f"{bar} {100 * step // total:3d}%  {describe(*rest)}{self._left(step, total)}"
        )

    def close(self) -> None:
        if self._length:
            self._end_line()

    def _left(self, step: int, total: int) -> str:
        if self._first is None:
            # A run that goes on has steps behind it that cost no time now.
            self._first, self._began = step, time.monotonic()
            return ""
        done = step - self._first
        if done <= 0 or step >= total:
            return ""
        seconds = (time.monotonic() - self._began) * (total - step) / done
        return f"  {int(seconds // 60)}:{int(seconds % 60):02d} left"

    def _write(self, line: str) -> None:
        padding = " " * max(0, self._length - len(line))
        sys.stderr.write(f"\r{line}{padding}")
        sys.stderr.flush()
        self._length = len(line)

    def _end_line(self) -> None:
        sys.stderr.write("\n")
        self._length = 0


class TqdmBar:
    """tqdm's bar, which knows notebooks."""

    def __init__(self, make: Callable[..., Any], unit: str) -> None:
        self._make = make
        self._unit = unit
        self._bar: Any = None

    def __call__(self, *told: Any) -> None:
        if len(told) == 1:
            print(told[0], file=sys.stderr)
            return
        step, total, *rest = told
        if self._bar is None:
            # Steps of before, of a run that goes on, cost no time now.
            self._bar = self._make(total=total, unit=self._unit, unit_scale=True, initial=step)
        self._bar.set_postfix_str(describe(*rest), refresh=False)
        self._bar.update(step - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    instance = shell.get_ipython() if shell is not None else None
    return type(instance).__name__ == "ZMQInteractiveShell"


def notebook_bar() -> Any:
    """What makes tqdm's bar, where it and the widgets it is drawn with are installed."""
    try:
        from tqdm.notebook import IProgress, tqdm
    except ImportError:
        return None
    return None if IProgress is None else tqdm


def terminal_bar() -> Any:
    """What makes tqdm's bar, where it is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm


def reporter(progress: ProgressOption, unit: str = " steps") -> Any:
    """What shows progress: nothing, a function of the caller's, or what suits the place."""
    if progress is False:
        return Silence()
    if callable(progress):
        return CallerFunction(progress)
    if progress is not None and progress is not True:
        raise WrongType(f"progress must be None, True, False or a function, got {progress!r}")
    in_notebook = is_notebook()
    if in_notebook or sys.stderr.isatty():
        make = notebook_bar() if in_notebook else terminal_bar()
        return TerminalBar() if make is None else TqdmBar(make, unit)
    return PlainLines() if progress else Silence()


class CallerFunction:
    """A function that is called with a dictionary after rounds; notes are none of its business."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, *told: Any) -> None:
        if len(told) == 4:
            step, total, reached, speed = told
            self._function(
                {"step": step, "steps": total, "return": reached, "steps_per_s": speed}
            )
        elif len(told) == 2:
            done, total = told
            self._function({"windows": done, "of": total})

    def close(self) -> None:
        pass
