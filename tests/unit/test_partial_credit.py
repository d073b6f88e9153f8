"""Partial credit of failed episodes on the embedded phone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import fmean

import pytest

from mobilerl.config import Recipe
from mobilerl.envs.base import Action, Finish, Home, Task
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.generated import tasks as generated
from mobilerl.envs.phone.generated.app import app_class
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.shop import CART, ITEMS, ORDERS
from mobilerl.envs.phone.tasks.suite import make_task
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.suites.base import make_suite
from mobilerl.suites.fleet import make_devices
from mobilerl.suites.phone.evaluation import SimPlan

NUMBER_OF_APPS = 64
DONE = Finish("done")
SEVERAL = {
    **{"CalculatorCompute": 2, "ClockTimerStart": 2, "FilesOrganise": 2, "MessagesSendTwo": 2, "MusicFillPlaylist": 3},
    **{"SettingsSwitchAndChoice": 2, "SettingsThreeSwitches": 3, "SettingsTwoLevels": 2, "SettingsTwoSwitches": 2},
    **{"ShopAddToCart": 2, "ShopBuy": 2},
    **{"three-changes": 3, "two-changes": 2},
}
"""Number of conditions of the tasks that have more than one, without those of the fields of a new row (FIELDS)."""
FIELDS = {
    **{"CalendarAdd": 3, "CalendarAddToday": 2, "ClockAlarmLabelled": 2, "ContactsCreate": 2, "MessagesDraft": 2},
    **{"MessagesReply": 2, "MessagesSend": 2, "NotesCreate": 2, "TodoAdd": 2, "TodoAddDue": 3},
}
"""Number of fields of a new row that the goal names, where it names more than one."""


def task_of(name: str, seed: int) -> Task:
    return make_task(name, seed) if name in TEMPLATES else generated.make_task(name, seed, NUMBER_OF_APPS)


def expert_scores(task: Task) -> tuple[list[list[bool]], list[float]]:
    """The expert's episode: which conditions hold before each of its actions, and the score had it stopped there."""

    async def run() -> tuple[list[list[bool]], list[float]]:
        env = PhoneEnv(screenshots=False, partial_credit=True)
        seen, done, held, scores = await env.reset(task), False, [], []
        agent = ExpertAgent(env.template)
        while not done:
            held.append(env.template.conditions(env._admin, ""))
            scores.append(await env.score())
            result = await env.step(agent.act(seen))
            seen, done = result.observation, result.done
        held.append(env.template.conditions(env._admin, env._answer or ""))
        return held, [*scores, await env.score()]

    return asyncio.run(run())


@pytest.mark.parametrize("name", [*TEMPLATES, *generated.TEMPLATES])
def test_no_condition_holds_at_first_and_all_hold_when_the_expert_is_done(name):
    for seed in range(2):
        held, scores = expert_scores(task_of(name, seed))
        assert not any(held[0]) and all(held[-1]) and len(held[0]) == (SEVERAL | FIELDS).get(name, 1)
        assert scores == [0.5 * fmean(holds) for holds in held[:-1]] + [1.0]


@pytest.mark.parametrize("name", sorted(SEVERAL.keys() - {"ShopAddToCart", "ShopBuy"}))
def test_the_expert_meets_one_condition_after_the_other(name):
    fractions = [fmean(holds) for seed in range(4) for holds in expert_scores(task_of(name, seed))[0]]
    assert any(0 < fraction < 1 for fraction in fractions)


def score_after(task: Task, meddle: Callable[[Admin], object], last: Action = DONE) -> float:
    """The score of an agent that changes the phone's state by `meddle` and ends with `last`."""

    async def run() -> float:
        env = PhoneEnv(screenshots=False, partial_credit=True)
        await env.reset(task)
        meddle(env._admin)
        await env.step(last)
        return await env.score()

    return asyncio.run(run())


@pytest.mark.parametrize("name", [*TEMPLATES, *generated.TEMPLATES])
def test_idle_agents_have_no_credit(name):
    task = task_of(name, 0)
    idle = ["", "done"] + ([INFEASIBLE] if task.feasible else [])
    assert [score_after(task, lambda phone: None, Finish(message)) for message in idle] == [0.0] * len(idle)


def test_half_of_a_task_earns_a_quarter_unless_something_else_was_changed():
    task = task_of("two-changes", 1)  # edits row 4 and deletes row 9
    edit, delete = task.params["ops"]
    table = f"{app_class(edit['app']).spec.authority}/{edit['table']}"

    def half(phone: Admin) -> None:
        phone.update(table, edit["row"], **edit["values"])

    def both(phone: Admin) -> None:
        half(phone)
        phone.delete(table, delete["row"])

    def all_rows(phone: Admin) -> None:
        phone.delete(table)

    assert [score_after(task, meddle) for meddle in (half, both, all_rows)] == [0.25, 1.0, 0.0]
    assert score_after(task, both, Home()) == 0.5, "done, but not declared so"


def test_the_right_product_earns_credit_in_the_wrong_quantity_and_at_the_wrong_address():
    in_cart = next(t for i in range(50) if (t := make_task("ShopAddToCart", i)).params["quantity"] == 2)
    bought = next(t for i in range(50) if (t := make_task("ShopBuy", i)).params["address"] == "Home")

    def put(phone: Admin) -> None:
        phone.insert(CART, name=in_cart.params["product"], quantity=1)

    def order(phone: Admin) -> None:
        phone.insert(ORDERS, number=99, total=100, address="Work")
        phone.insert(ITEMS, number=99, name=bought.params["product"], quantity=1)

    assert score_after(in_cart, put) == score_after(bought, order) == 0.25


def test_every_field_of_a_new_row_counts_unless_there_is_another_row():
    task = next(t for i in range(50) if (t := make_task("TodoAddDue", i)).params["priority"] == "High")
    title, due = task.params["title"], task.params["due"]

    def add(**values: str) -> Callable[[Admin], None]:
        return lambda phone: phone.insert("tasks/tasks", **{"title": title, "due": due, "priority": "High"} | values)

    def twice(phone: Admin) -> None:
        add()(phone)
        add()(phone)

    wrong = [add(priority="Low"), add(priority="Low", title="nothing"), twice]
    assert [score_after(task, meddle) for meddle in wrong] == pytest.approx([1 / 3, 1 / 6, 0])


def test_phones_of_training_give_partial_credit_and_those_of_evaluations_do_not(tmp_path):
    recipe = Recipe(phone={"partial_credit": True}, fleet={"count": 1})
    (trained,) = make_devices(recipe).envs
    (evaluated,) = SimPlan().devices(recipe, 1, False, tmp_path)
    served = make_suite(recipe).env_factory()("phone", InProcessTransport(Phone(APPS), "phone"))
    assert [phone._partial_credit for phone in (trained, served, evaluated)] == [True, True, False]
