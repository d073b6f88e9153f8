"""The recipes that come with the package."""

from __future__ import annotations

from pathlib import Path

from mobilerl.config.flags import ConfigError

RECIPES = (Path(__file__).parents[1] / "recipes").resolve()
"""Folder of the recipes: in a checkout a link to `recipes/`, in an installed package the files themselves."""
PLANS = ("compare",)
"""TOML files in the folder that are not recipes."""


def recipe_names() -> list[str]:
    """Returns the names of the packaged recipes: `adagrpo`, `generated/adagrpo` and so on."""
    names = (path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.toml"))
    return sorted(name for name in names if name not in PLANS)


def check_given(config: Path | str | None, command: str) -> None:
    """Raises ConfigError without a recipe: a training with nothing but defaults is hardly ever meant."""
    if config is None:
        raise ConfigError(
            f"--config is missing: `mobilerl {command}` needs a recipe, a file or one of {', '.join(recipe_names())}"
        )


def find_recipe(given: Path | str) -> Path:
    """Returns the file of a recipe, given as a path or the name of a packaged one. Raises ConfigError without one."""
    path, name, names = Path(given), str(given), recipe_names()
    if name in names and not path.is_file():
        return RECIPES / f"{name}.toml"
    if not path.exists():
        raise ConfigError(f"there is no recipe {name}: name a file, or one of {', '.join(names)}")
    return path
