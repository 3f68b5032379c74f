"""Numbers and lists as the report writes them."""

from __future__ import annotations

from collections.abc import Sequence

from hargo.report.tables import METRICS


def signed(value: float, decimals: int) -> str:
    """`+0.43`, or with a true minus sign `−0.43`."""
    return f"{value:+.{decimals}f}".replace("-", "−")


def interval(bounds: tuple[float, float], decimals: int) -> str:
    """`−0.70 to +1.54`."""
    return f"{signed(bounds[0], decimals)} to {signed(bounds[1], decimals)}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["SFT"]), listed(["SFT", "GRPO"]), listed(["SFT", "GRPO", "HARGO"])
    ('SFT', 'SFT and GRPO', 'SFT, GRPO and HARGO')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def plain(metric: str) -> str:
    """A headline metric's name in a sentence, without its unit: `WinRate`."""
    return METRICS[metric][0].removesuffix(" %")
