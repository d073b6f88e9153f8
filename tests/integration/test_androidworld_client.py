"""The client against the stand-in, and against a server of something else."""

from __future__ import annotations

import pytest
from androidworld_play import stand_ins_fixture  # noqa: F401 - a fixture

from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.faults import EnvironmentFault, NanScore, Unreachable, WrongServer
from mobilerl.envs.base import NoScore

TASK = "ContactsAddContact"


@pytest.fixture
def stand_in(stand_ins):
    return stand_ins()


@pytest.fixture
async def client(stand_in):
    client = AndroidWorldClient(stand_in.url, 20.0)
    yield client
    await client.close()


@pytest.mark.parametrize(
    ("said", "fault"),
    [(float("nan"), NanScore), (None, NanScore), ("1.0", WrongServer), (7, WrongServer), (-0.1, WrongServer)],
)
async def test_a_score_that_is_none(stand_in, client, said, fault):
    stand_in.scores[TASK] = said
    await client.initialize(TASK, 0)
    with pytest.raises(fault, match=TASK):
        await client.score(TASK, 0)


async def test_requests_after_a_500_get_through(stand_in, client):
    for _ in range(10):
        with pytest.raises(EnvironmentFault) as fault:
            await client.score(TASK, 0)
        assert isinstance(fault.value, NoScore), "a judge may give the reward"
        await client.reset(go_home=False)
    assert [r[1] for r in stand_in.requests].count("/reset") == 10


async def test_a_dropped_connection_is_a_fault_and_nothing_is_sent_twice(stand_in, client):
    stand_in.drops = {"/task/initialize", "/health"}
    with pytest.raises(Unreachable, match="POST /task/initialize: the connection was dropped"):
        await client.initialize(TASK, 0)
    with pytest.raises(Unreachable):
        await client.health()
    assert [r[1] for r in stand_in.requests] == ["/task/initialize", "/health"]
