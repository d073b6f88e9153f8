"""Tasks of the Shop app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.words import PRODUCTS

CART, ITEMS, ORDERS, STOCK = "shop/cart", "shop/order_items", "shop/orders", "shop/products"
Rows = list[dict[str, Any]]


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


class _OneProduct(Template):
    """A product with a price and `favourite` of the task's choice; the other products must stay as they are."""

    app = "Shop"
    favourite = 0
    stock = 1

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        category = rng.choice(sorted(PRODUCTS))
        return {"category": category, "product": rng.choice(PRODUCTS[category])}

    def setup(self, phone: Admin) -> None:
        rows = phone.rows(STOCK)
        self.row = next(r for r in rows if r["name"] == self.p["product"])
        price = self.p.get("price", self.row["price"])
        phone.update(STOCK, self.row["_id"], favourite=self.favourite, stock=self.stock, price=price)
        self.products, self.cart, self.orders = phone.rows(STOCK), phone.rows(CART), phone.rows(ORDERS)

    def changed(self, phone: Admin) -> Rows:
        """The products that are not as they were."""
        return [r for r, old in zip(phone.rows(STOCK), self.products, strict=True) if r != old]

    def bought_nothing(self, phone: Admin) -> bool:
        return phone.rows(CART) == self.cart and phone.rows(ORDERS) == self.orders

    def to_category(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Shop")
        yield ui.tap(self.p["category"])
        yield from ui.reach(self.p["product"])

    def to_product(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_category(ui)
        yield ui.tap(self.p["product"])


class ShopPrice(_OneProduct):
    instructions = ("How much is the {product} in {category}?", "Look up the price of the {product} in {category}")
    steps = 4

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "price": rng.randrange(200, 9900, 50)}

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, _money(self.p["price"]))

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_category(ui)
        yield ui.finish(_money(self.p["price"]))


class ShopFavourite(_OneProduct):
    instructions = ("Add the {product} in {category} to the favourites",)
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return [(r["name"], r["favourite"]) for r in self.changed(phone)] == [(self.p["product"], 1)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_product(ui)
        yield ui.tap("Favourite")
        yield ui.finish()


class ShopUnfavourite(_OneProduct):
    demo = False
    favourite = 1
    instructions = ("Remove the {product} from the favourites in Shop", "Take the {product} off the Shop favourites")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return [(r["name"], r["favourite"]) for r in self.changed(phone)] == [(self.p["product"], 0)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Shop")
        yield ui.tap("Favourites")
        yield ui.tap(f"Remove {self.p['product']}")
        yield ui.finish()


class ShopAddToCart(_OneProduct):
    instructions = ("Put the {product} from {category} in the cart, quantity {quantity}",)
    steps = 8

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "quantity": rng.randint(1, 3)}

    def check(self, phone: Admin, answer: str) -> bool:
        lines = [(r["name"], r["quantity"]) for r in phone.rows(CART)]
        return lines == [(self.p["product"], self.p["quantity"])] and phone.rows(ORDERS) == self.orders

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_product(ui)
        for _ in range(self.p["quantity"] - 1):
            yield ui.tap("More")
        yield ui.tap("Add to cart")
        yield ui.finish()


class _InCart(_OneProduct):
    """The product lies in the cart, next to another one."""

    quantity = 1

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        first, second = rng.sample([p for names in PRODUCTS.values() for p in names], 2)
        return {"product": first, "other": second}

    def setup(self, phone: Admin) -> None:
        for name, quantity in ((self.p["other"], 1), (self.p["product"], self.quantity)):
            phone.insert(CART, name=name, quantity=quantity)
        super().setup(phone)

    def lines(self, phone: Admin) -> dict[str, int]:
        return {r["name"]: r["quantity"] for r in phone.rows(CART)}


class ShopRemoveFromCart(_InCart):
    instructions = ("Take the {product} out of the shopping cart", "Remove the {product} from the cart in Shop")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return self.lines(phone) == {self.p["other"]: 1} and phone.rows(ORDERS) == self.orders

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Shop")
        yield ui.tap("Cart")
        yield ui.tap(f"Less {self.p['product']}")
        yield ui.finish()


class ShopCartMore(_InCart):
    split = "test"
    instructions = ("Change the quantity of the {product} in the cart to 2",)
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = {self.p["other"]: 1, self.p["product"]: 2}
        return self.lines(phone) == wanted and phone.rows(ORDERS) == self.orders

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Shop")
        yield ui.tap("Cart")
        yield ui.tap(f"More {self.p['product']}")
        yield ui.finish()


class ShopBuy(_OneProduct):
    instructions = ("Buy the {product} in {category} and have it delivered to {address}",)
    steps = 11

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "address": rng.choice(("Home", "Work"))}

    def check(self, phone: Admin, answer: str) -> bool:
        known = {r["_id"] for r in self.orders}
        new = [r for r in phone.rows(ORDERS) if r["_id"] not in known]
        if [r["address"] for r in new] != [self.p["address"]] or phone.rows(CART):
            return False
        items = [(r["name"], r["quantity"]) for r in phone.rows(ITEMS) if r["number"] == new[0]["number"]]
        return items == [(self.p["product"], 1)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_product(ui)
        yield ui.tap("Add to cart")
        yield ui.tap("Cart")
        yield ui.tap("Check out")
        if self.p["address"] != "Home":
            yield ui.tap(self.p["address"])
        yield ui.tap("Place order")
        yield ui.tap("Confirm")
        yield ui.finish()


class ShopBuySoldOut(_OneProduct):
    """What is sold out cannot be bought: the product's page has no button for it."""

    stock = 0
    instructions = ("Buy one {product} in {category} in Shop", "Order the {product} in {category} in Shop")
    steps = 5
    feasible = False

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and self.bought_nothing(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_product(ui)
        yield ui.finish(INFEASIBLE)


class ShopOrderTotal(Template):
    app = "Shop"
    instructions = ("What was the total of order {number} in Shop?", "How much did order {number} cost?")
    steps = 3

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"number": rng.randint(13, 40), "total": rng.randrange(500, 9900, 50)}

    def setup(self, phone: Admin) -> None:
        phone.insert(ORDERS, number=self.p["number"], total=self.p["total"], address="Home")

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, _money(self.p["total"]))

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Shop")
        yield ui.tap("Orders")
        yield ui.finish(_money(self.p["total"]))


TEMPLATES = (
    ShopPrice,
    ShopFavourite,
    ShopUnfavourite,
    ShopAddToCart,
    ShopRemoveFromCart,
    ShopCartMore,
    ShopBuy,
    ShopBuySoldOut,
    ShopOrderTotal,
)
