"""Tasks of the Shop app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from mobilerl.envs.base import Action
from mobilerl.envs.phone.apps.shop import ADDRESSES, money
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Row, RowTemplate
from mobilerl.envs.phone.tasks.helpers import edits, reach, repeat, unchanged
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.words import PRODUCTS

CART, ITEMS, ORDERS, STOCK = "shop/cart", "shop/order_items", "shop/orders", "shop/products"
PRICES = range(200, 9900, 50)
"""Cents."""
TO_PRODUCT = ("{category}", reach("{product}"), "{product}")


def _check_out(ui: UI, p: Row) -> Iterator[Action]:
    yield from ui.press("Check out")
    if p["address"] != "Home":
        yield from ui.press(p["address"])
    yield from ui.press("Place order")
    yield from ui.press("Confirm")


class _OneProduct(RowTemplate):
    """A product with the price, `favourite` and `stock` of the task; the other products must stay as they are."""

    app = "Shop"
    table = STOCK
    favourite = 0
    stock = 1

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        category = rng.choice(sorted(PRODUCTS))
        product = rng.choice(PRODUCTS[category])
        return {"category": category, "product": product, **super().sample(rng)}

    def setup(self, phone: Admin) -> None:
        row = next(r for r in phone.rows(STOCK) if r["name"] == self.p["product"])
        self.row_id = row["_id"]
        price: int = self.p["price"] if "price" in self.p else row["price"]
        phone.update(STOCK, self.row_id, favourite=self.favourite, stock=self.stock, price=price)
        self.p["cost"] = money(price)
        self.before, self.cart, self.orders = phone.rows(STOCK), phone.rows(CART), phone.rows(ORDERS)

    def cart_holds(self, phone: Admin, *lines: tuple[str, int]) -> bool:
        """Whether the cart has just these (product, quantity) lines, in any order, and nothing was ordered."""
        found = sorted((r["name"], r["quantity"]) for r in phone.rows(CART))
        return found == sorted(lines) and phone.rows(ORDERS) == self.orders


class ShopPrice(_OneProduct):
    instructions = (
        "How much [is|do I pay for] the {product} in {category}?",
        "[Look up|Tell me|Find] the price of the {product} in {category}",
        "What [is the price of|do I pay for] the {product} from {category}?",
        "What does the {product} [in|from] {category} cost[ in Shop|]?",
        "In Shop, how much is the {product} from {category}?",
    )
    params = {"price": PRICES}
    script = ("{category}", reach("{product}"))
    answer = "{cost}"


class ShopFavourite(_OneProduct):
    instructions = (
        "Add the {product} [in|from] {category} to [the|my] favourites",
        "Make the {product} [in|from] {category} a favourite[ in Shop|]",
        "[Mark|Save] the {product} [in|from] {category} as a favourite",
    )
    script = (*TO_PRODUCT, "Favourite")
    done = edits(favourite=1)


class ShopUnfavourite(_OneProduct):
    demo = False
    favourite = 1
    instructions = (
        "Remove the {product} from [the|my] favourites in Shop",
        "Take the {product} [off|from] [the|my] Shop favourites",
        "In Shop the {product} should [be no|not be a] favourite",
        "Unmark the {product} as a favourite in Shop",
        "Drop the {product} from [the|my] Shop favourites",
    )
    script = ("Favourites", "Remove {product}")
    done = edits(favourite=0)


class ShopAddToCart(_OneProduct):
    instructions = (
        "Put the {product} from {category} [in|into] [the|my] cart, quantity {quantity}",
        "Add the {product} from {category} to [the|my] [cart|shopping cart], quantity {quantity}",
        "In Shop [put|add] {quantity} of the {product} from {category} into the cart",
        "The cart should have the {product} from {category}, quantity {quantity}",
    )
    params = {"quantity": range(1, 4)}
    script = (*TO_PRODUCT, repeat("More", lambda p: p["quantity"] - 1), "Add to cart")
    steps = 8

    def done(self, phone: Admin) -> bool:
        return self.cart_holds(phone, (self.p["product"], self.p["quantity"]))

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        product, lines = self.p["product"], phone.rows(CART)
        put = len(lines) == 1 and self.cart_holds(phone, (product, lines[0]["quantity"]))
        return [put, self.done(phone)]


class _InCart(_OneProduct):
    """The product lies in the cart, next to another one."""

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        first, second = rng.sample([p for names in PRODUCTS.values() for p in names], 2)
        return {"product": first, "other": second}

    def setup(self, phone: Admin) -> None:
        for name in (self.p["other"], self.p["product"]):
            phone.insert(CART, name=name, quantity=1)
        super().setup(phone)


class ShopRemoveFromCart(_InCart):
    instructions = (
        "Take the {product} out of [the shopping|the|my] cart",
        "[Remove|Delete|Drop] the {product} from the [cart|shopping cart] in Shop",
        "I do not [want|need] the {product} in [the|my] cart, remove it",
    )
    script = ("Cart", "Less {product}")

    def done(self, phone: Admin) -> bool:
        return self.cart_holds(phone, (self.p["other"], 1))


class ShopCartMore(_InCart):
    split = "dev"
    instructions = (
        "[Change|Set] the quantity of the {product} in [the|my] cart to 2",
        "I [want|need] 2 of the {product} in the [cart|shopping cart], change the quantity",
        "The cart should have 2 of the {product}",
        "In Shop the quantity of the {product} in [the|my] cart should be 2",
    )
    script = ("Cart", "More {product}")

    def done(self, phone: Admin) -> bool:
        return self.cart_holds(phone, (self.p["other"], 1), (self.p["product"], 2))


class ShopBuy(_OneProduct):
    instructions = (
        "[Buy|Order] the {product} [in|from] {category} and have it [delivered|sent] to {address}",
        "[Buy|Order] the {product} [in|from] {category}, deliver it to {address}",
        "I want the {product} from {category} delivered to {address}, [buy|order] it",
    )
    params = {"address": ADDRESSES}
    script = (*TO_PRODUCT, "Add to cart", "Cart", _check_out)
    steps = 11

    def done(self, phone: Admin) -> bool:
        return all(self.conditions(phone, ""))

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        known = {r["_id"] for r in self.orders}
        new = [r for r in phone.rows(ORDERS) if r["_id"] not in known]
        if len(new) != 1 or phone.rows(CART):
            return [False, False]
        items = [(r["name"], r["quantity"]) for r in phone.rows(ITEMS) if r["number"] == new[0]["number"]]
        bought = items == [(self.p["product"], 1)]
        return [bought, bought and new[0]["address"] == self.p["address"]]


class ShopBuySoldOut(_OneProduct):
    """What is sold out cannot be bought: the product's page has no button for it."""

    stock = 0
    instructions = (
        "[Buy|Order|Get] one {product} [in|from] {category} in Shop",
        "[Order|Buy] the {product} [in|from] {category} in Shop",
        "In Shop [buy|order] one {product} from {category}",
    )
    script = TO_PRODUCT
    answer = INFEASIBLE

    def done(self, phone: Admin) -> bool:
        return phone.rows(CART) == self.cart and phone.rows(ORDERS) == self.orders


class _OneOrder(RowTemplate):
    """An order of one product."""

    app = "Shop"
    table = ORDERS
    unique = ("number",)
    params = {
        "number": range(13, 41),
        "total": range(500, 9900, 50),
        "product": [product for names in PRODUCTS.values() for product in names],
    }
    new_row = {"number": "{number}", "total": "{total}", "address": "Home"}
    done = unchanged

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.p["cost"] = money(self.p["total"])
        phone.insert(ITEMS, number=self.p["number"], name=self.p["product"], quantity=1)


class ShopOrderTotal(_OneOrder):
    instructions = (
        "What [was|is] the total of order {number}[ in Shop|]?",
        "How much did [order {number} cost|I pay for order {number}]?",
        "[Tell me|Look up] the [total|price] of order {number} in Shop",
        "In Shop, how much was order {number}?",
    )
    script = ("Orders",)
    answer = "{cost}"
