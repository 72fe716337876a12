"""Method settings: a frozen dataclass a method, `--set key=value` typed by its annotations."""

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin

from expbench.errors import ConfigError, UnknownName

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Split `key=value` words.

    >>> parse_settings(["k=4", "summary=policy"])
    {'k': '4', 'summary': 'policy'}

    Raises:
        ConfigError: a word without `=`.
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"Setting {pair!r} is not of the form key=value.")
        settings[key.strip()] = value.strip()
    return settings


def build_config(cls: type[Any], settings: Mapping[str, str], *, method: str) -> Any:
    """Build a method's config from text values.

    Raises:
        UnknownName: a key that the config does not have.
        ConfigError: a value that does not fit the field's type, or that the config refuses.
    """
    if not is_dataclass(cls):
        raise ConfigError(f"The Config of method {method!r} must be a dataclass, not {cls!r}.")
    names = [field.name for field in fields(cls)]
    kinds = typing.get_type_hints(cls)
    values = {}
    for key, text in settings.items():
        if key not in names:
            raise UnknownName.among(f"setting of method {method!r}", key, names)
        values[key] = _convert(text, kinds[key], where=f"{method}.{key}")
    return cls(**values)


def _convert(text: str, kind: Any, *, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if text.lower() == "none" and type(None) in get_args(kind):
            return None
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
        origin = get_origin(kind)
    if origin is Literal:
        allowed = [str(choice) for choice in get_args(kind)]
        if text not in allowed:
            raise ConfigError(f"{where} is {text!r}; allowed: {', '.join(allowed)}.")
        return get_args(kind)[allowed.index(text)]
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise ConfigError(f"{where} is {text!r}; allowed: true or false.")
        return _TRUTH[text.lower()]
    try:
        return kind(text)
    except (TypeError, ValueError):
        name = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{where} is {text!r}, which is not of type {name}.") from None
