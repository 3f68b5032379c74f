"""Options of the parts of a study. Pydantic models are the only truth about what a study may say."""

from hargo.config.options.base import BelongsTo, Location, Names, Options, Seed
from hargo.config.options.compute import ComputeOptions, PrefetchOptions
from hargo.config.options.data import ColumnOptions, DataOptions, EmbeddedOptions
from hargo.config.options.evaluation import EvaluationOptions, ReportOptions
from hargo.config.options.extend import ExtendOptions
from hargo.config.options.methods import (
    PolicyOptions,
    PostTrainingOptions,
    PreferenceOptions,
    RLOptions,
    RolloutOptions,
)
from hargo.config.options.model import ModelOptions, ScratchOptions
from hargo.config.options.sampler import SamplerOptions
from hargo.config.options.training import (
    AdapterOptions,
    EpochOptions,
    LoRAOptions,
    OptimOptions,
    PretrainOptions,
    SFTOptions,
)

__all__ = [
    "AdapterOptions",
    "BelongsTo",
    "ColumnOptions",
    "ComputeOptions",
    "DataOptions",
    "EmbeddedOptions",
    "EpochOptions",
    "EvaluationOptions",
    "ExtendOptions",
    "LoRAOptions",
    "Location",
    "ModelOptions",
    "Names",
    "OptimOptions",
    "Options",
    "PolicyOptions",
    "PostTrainingOptions",
    "PreferenceOptions",
    "PrefetchOptions",
    "PretrainOptions",
    "RLOptions",
    "ReportOptions",
    "RolloutOptions",
    "SFTOptions",
    "SamplerOptions",
    "ScratchOptions",
    "Seed",
]
