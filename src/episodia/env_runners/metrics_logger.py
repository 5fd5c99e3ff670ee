"""Values that callbacks log, with RLlib's methods: they are part of the metrics of a runner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal, TypeAlias, final

import numpy as np

from episodia.arguments import is_number
from episodia.env_runners.runner_metrics import LoggedValues, RunnerMetrics
from episodia.errors import EnvRunnerError
from episodia.trees import shown

Key: TypeAlias = str | Sequence[str]
Reduce: TypeAlias = Literal["mean", "sum", "min", "max"]


@final
class MetricsLogger:
    """Logs values under names; `runner.get_metrics().logged` has those since its last call.

    The methods have RLlib's arguments. Values are kept until `get_metrics`, so `ema_coeff` and `clear_on_reduce` change
    nothing: a mean is that of all values since then, or of the last `window` ones.

    Args:
        metrics: The metrics of the runner.

    >>> logger = MetricsLogger(RunnerMetrics())
    >>> logger.log_value("angle", 1.0)
    >>> logger.log_value("angle", 2.0)
    >>> logger.log_value(("falls", "left"), 1, reduce="sum")
    >>> logger.peek("angle"), logger.peek("falls/left")
    (1.5, 1.0)
    """

    def __init__(self, metrics: RunnerMetrics) -> None:
        self._metrics = metrics

    def log_value(
        self,
        key: Key,
        value: Any,
        *,
        reduce: Reduce = "mean",
        window: int | None = None,
        ema_coeff: float | None = None,
        clear_on_reduce: bool = False,
    ) -> None:
        """Log a number.

        Args:
            key: The name, or the parts of a name.
            value: A number, also as an array or tensor without axes.
            reduce: What `peek` and `RunnerMetrics.as_dict` make of the values.
            window: How many of the last values are kept; None keeps all.
            ema_coeff: Not used.
            clear_on_reduce: Not used.

        Raises:
            EnvRunnerError: If `value` is not a number, or `reduce` is unknown or differs from that of earlier values.
        """
        name, number = _name(key), np.asarray(value)
        if number.ndim or not is_number(number.item()):
            raise EnvRunnerError(f"log_value: found {value!r} for {name!r}, expected a number. Log numbers one by one.")
        logged = self._metrics.logged.setdefault(name, LoggedValues(reduce))
        if reduce != logged.reduce:
            raise EnvRunnerError(
                f"log_value: found `reduce={shown(reduce)}` for {name!r}, expected {logged.reduce!r}, as before. Use another "
                "name."
            )
        logged.values.append(float(number))
        if window is not None:
            del logged.values[:-window]

    def log_dict(self, values: Mapping[str, Any], *, key: Key | None = None, **options: Any) -> None:
        """Log each value of a dict, also of nested dicts, under `key` and its own key; `options` are those of `log_value`."""
        for name, value in values.items():
            path = (name,) if key is None else (_name(key), name)
            if isinstance(value, Mapping):
                self.log_dict(value, key=path, **options)
            else:
                self.log_value(path, value, **options)

    @contextmanager
    def log_time(self, key: Key, **options: Any) -> Iterator[None]:
        """Log the seconds that the `with` block takes; `options` are those of `log_value`."""
        started = perf_counter()
        yield
        self.log_value(key, perf_counter() - started, **options)

    def peek(self, key: Key) -> float:
        """Return what the values of `key` amount to by now.

        Raises:
            EnvRunnerError: If there are no values.
        """
        name = _name(key)
        if name not in self._metrics.logged:
            raise EnvRunnerError(
                f"peek: found no values of {name!r}, expected one of {list(self._metrics.logged)}. Log a value first."
            )
        return self._metrics.logged[name].reduced()


def _name(key: Key) -> str:
    return key if isinstance(key, str) else "/".join(map(str, key))
