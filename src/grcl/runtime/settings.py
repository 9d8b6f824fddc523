"""The base of every settings record: typed, frozen, and unknown keys are refused."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A record of settings; the string below each field is its help text."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )
