"""How the devices of a run are shared out among the processes that play on them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.pool import DevicePool
from mobilerl.config import ConfigError, Recipe
from mobilerl.fleet import Part, make_devices


@given(things=st.integers(0, 40), of=st.integers(1, 9))
def test_parts_hold_everything_once_and_differ_by_one_at_most(things, of):
    parts = [Part(i, of).among(range(7, 7 + things)) for i in range(of)]
    assert [n for part in parts for n in part] == list(range(7, 7 + things))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def pools(recipe: Recipe, workers: int) -> Sequence[DevicePool]:
    made = [make_devices(recipe, part=Part(i, workers)) for i in range(workers)]
    assert all(isinstance(pool, DevicePool) for pool in made)
    return made


def on_serials(devices: int, spares: int, serials: int) -> Recipe:
    names = [f"emulator-{5554 + 2 * i}" for i in range(serials)]
    return Recipe(phone={"count": devices}, fleet={"type": "adb", "serials": names, "spares": spares})


@pytest.mark.parametrize("spares", [0, 1, 2, 5])
def test_no_phone_is_played_on_by_two_workers(spares):
    shared = pools(on_serials(4, spares, 7), 2)
    serials = [serial for pool in shared for serial in pool.provider.serials]
    assert len(set(serials)) == len(serials) == 4 + min(spares, 3)
    assert [pool.settings.leases for pool in shared] == [2, 2]
    for pool in shared:
        assert len(pool.provider.serials) == pool.settings.leases + pool.settings.spares


def test_containers_of_two_workers_have_different_names_and_no_more_spares_than_were_asked_for():
    recipe = Recipe(phone={"count": 6}, fleet={"type": "docker", "spares": 3})
    shared = pools(recipe, 2)
    assert [list(pool.provider.numbers) for pool in shared] == [[0, 1, 2, 6], [3, 4, 5, 7, 8]]
    assert [pool.settings.spares for pool in shared] == [1, 2]


def test_too_few_serials_are_an_error_before_anything_is_played():
    with pytest.raises(ConfigError, match="names 3 devices, 4 are wanted: set phone.count to at most 3"):
        make_devices(on_serials(4, 2, 3))
