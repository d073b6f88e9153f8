"""Shop: products by category, favourites, a cart with quantities, a checkout that asks twice, past orders."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.icons import SHAPES
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import IMAGE, Dialog, Node, Screen
from mobilerl.envs.phone.widgets import (
    TEXT,
    grid,
    heart_button,
    icon_button,
    item,
    label,
    radio_item,
    section,
    step_buttons,
    tile,
    wide_button,
)
from mobilerl.envs.phone.words import PRODUCTS

CATEGORIES = {
    "Books": ("book", "#5C6BC0"),
    "Garden": ("sun", "#43A047"),
    "Kitchen": ("cup", "#F4511E"),
    "Office": ("edit", "#546E7A"),
    "Sport": ("bike", "#00897B"),
    "Toys": ("game", "#D81B60"),
}
"""Category -> its icon and color."""
OTHER = ("bag", "#78909C")
ADDRESSES = ("Home", "Work")
PAGES = ("Home", "Favourites", "Cart", "Orders")


def icon_of(product: Row) -> str:
    """The image of a product: its own, or that of its category."""
    name: str = product["name"].lower()
    return name if name in SHAPES else CATEGORIES.get(product["category"], OTHER)[0]


def money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


class Shop(App):
    package = "com.android.vending"
    label = "Shop"
    authority = "shop"
    icon = "bag"
    color = "#00796B"
    tables = {
        "products": {"name": "", "category": "", "price": 0, "stock": 1, "favourite": 0},
        "cart": {"name": "", "quantity": 1},
        "orders": {"number": 0, "total": 0, "address": "Home"},
        "order_items": {"number": 0, "name": "", "quantity": 1},
    }
    """Prices and totals are in cents. A product whose `stock` is 0 is sold out."""
    list_detail = ListDetail(("main", "category", "search"), ("product", "order", "checkout"), "Select a product")

    def populate(self, rng: random.Random) -> None:
        for category, names in PRODUCTS.items():
            for name in names:
                self.insert("products", name=name, category=category, price=rng.randrange(200, 9900, 50))
        for product in rng.sample(self.db["products"], 2):
            product["favourite"] = 1
        known = [r["name"] for r in self.db["products"]]
        for number in range(11, 13):
            self._order(number, [(n, rng.randint(1, 3)) for n in rng.sample(known, 2)], rng.choice(ADDRESSES))

    def product(self, name: str) -> Row | None:
        return next((r for r in self.db["products"] if r["name"] == name), None)

    def price(self, name: str) -> int:
        """In cents; 0 for what is no longer sold."""
        product = self.product(name)
        return product["price"] if product else 0

    def _dollars(self, cents: int) -> str:
        """A price as it is shown."""
        return self.t("${amount}", amount=self.phone.language.number(money(cents)))

    def _total_label(self, cents: int) -> Node:
        return label(self.t("Total {price}", price=self._dollars(cents)), size=18, bold=True)

    def total(self) -> int:
        """The price of the cart, in cents."""
        return sum(self.price(line["name"]) * line["quantity"] for line in self.db["cart"])

    def page_main(self, page: Page) -> Screen:
        shown: str = page.args.get("tab", "Home")
        body = {"Home": self._home, "Favourites": self._favourites, "Cart": self._cart, "Orders": self._orders}[shown]()
        bottom = self.tab_bar(PAGES, shown, ("home", "heart", "cart", "list"))
        actions = [self.search_button()] if shown == "Home" else []
        return Screen(self.t("Shop" if shown == "Home" else shown), body, actions, bottom=bottom)

    def _home(self) -> list[Node]:
        tiles = [
            tile(name, icon, color, partial(self.go, "category", category=name), height=112)
            for name, (icon, color) in CATEGORIES.items()
        ]
        return [section(self.t("Categories")), *grid(tiles, 2)]

    def _favourites(self) -> list[Node]:
        liked = [r for r in self.db["products"] if r["favourite"]]
        return [self._row(r, self._unlike_button(r)) for r in liked] or [label(self.t("No favourites yet"))]

    def _unlike_button(self, product: Row) -> Node:
        name = self.t("Remove {name}", name=product["name"])
        return icon_button("trash", name, lambda: product.update(favourite=0))

    def _cart(self) -> list[Node]:
        lines = [self._cart_row(line) for line in self.db["cart"]]
        if not lines:
            return [label(self.t("Your cart is empty"))]
        pay = wide_button(self.t("Check out"), lambda: self.go("checkout", address="Home"))
        return [*lines, self._total_label(self.total()), pay]

    def _cart_row(self, line: Row) -> Node:
        name, quantity = line["name"], line["quantity"]
        less, more = self.t("Less {name}", name=name), self.t("More {name}", name=name)
        buttons = step_buttons(less, more, partial(self._change, line))
        return item(name, f"{quantity} x {self._dollars(self.price(name))}", trailing=buttons)

    def _orders(self) -> list[Node]:
        orders = sorted(self.db["orders"], key=lambda r: -r["number"])
        return [self._order_row(r) for r in orders] or [label(self.t("No orders yet"))]

    def _order_row(self, order: Row) -> Node:
        number = order["number"]
        total = self.t("Total {price}", price=self._dollars(order["total"]))
        opened, shown = partial(self.go, "order", number=number), self.shown_beside(number=number)
        return item(self.t("Order {number}", number=number), total, on_tap=opened, icon="bag", selected=shown)

    def _row(self, product: Row, *trailing: Node) -> Node:
        name = product["name"]
        return item(
            name,
            self._dollars(product["price"]),
            on_tap=partial(self.go, "product", product=name),
            icon=icon_of(product),
            trailing=trailing,
            selected=self.shown_beside(product=name),
        )

    def page_category(self, page: Page) -> Screen:
        rows = [self._row(r) for r in self.db["products"] if r["category"] == page.args["category"]]
        return Screen(page.args["category"], rows, [self._cart_button()], on_up=self.up)

    def page_search(self, page: Page) -> Screen:
        return self.search_screen(page, self.t("Search products"), self.db["products"], lambda r: r["name"], self._row)

    def page_product(self, page: Page) -> Screen:
        product = self.product(page.args["product"])
        if product is None:
            return self.missing(self.t("Product"), self.t("This is no longer sold"))
        amount = page.args.setdefault("amount", 1)
        color = CATEGORIES.get(product["category"], OTHER)[1]
        body = [
            Node(cls=IMAGE, look="tile", icon=icon_of(product), color=color, height=180),
            label(self._dollars(product["price"]), size=22, bold=True),
            label(self.t("In stock" if product["stock"] else "Sold out")),
        ]
        if product["stock"]:
            add = wide_button(self.t("Add to cart"), lambda: self._add(product["name"], amount))
            body += [self._amount_row(page, amount), add]
        return Screen(
            product["name"], body, [heart_button(product, self.t), self._cart_button()], on_up=self.up, lead=1
        )

    def _amount_row(self, page: Page, amount: int) -> Node:
        less, more = step_buttons(
            self.t("Less"), self.t("More"), lambda by: page.args.update(amount=max(1, amount + by))
        )
        shown = Node(cls=TEXT, text=str(amount), look="text", size=16, align="center", width=32, height=24)
        return item(self.t("Quantity"), trailing=[less, shown, more])

    def _cart_button(self) -> Node:
        return icon_button("cart", self.t("Cart"), lambda: self.go("main", tab="Cart"))

    def page_checkout(self, page: Page) -> Screen:
        body = [section(self.t("Deliver to"))]
        body += [radio_item(a, page.args["address"] == a, partial(page.args.update, address=a)) for a in ADDRESSES]
        body.append(self._total_label(self.total()))
        order = wide_button(self.t("Place order"), lambda: self.open_dialog("confirm"), enabled=bool(self.db["cart"]))
        return Screen(self.t("Checkout"), [*body, order], on_up=self.up)

    def dialog_confirm(self, page: Page) -> Dialog:
        pay = self.t("You pay {price}", price=self._dollars(self.total()))
        return self.confirmation(self.t("Place order?"), partial(self._place, page), self.t("Confirm"), pay)

    def page_order(self, page: Page) -> Screen:
        number = page.args["number"]
        order = next((r for r in self.db["orders"] if r["number"] == number), None)
        if order is None:
            return self.missing(self.t("Order"), self.t("There is no such order"))
        lines = [r for r in self.db["order_items"] if r["number"] == number]
        body = [label(self.t("Thank you"))] if page.args.get("new") else []
        body += [item(r["name"], self.t("Quantity {quantity}", quantity=r["quantity"])) for r in lines]
        body += [item(self.t("Delivered to"), order["address"]), self._total_label(order["total"])]
        return Screen(self.t("Order {number}", number=number), body, on_up=self.up)

    def _add(self, name: str, amount: int) -> None:
        line = next((r for r in self.db["cart"] if r["name"] == name), None)
        if line is None:
            self.insert("cart", name=name, quantity=amount)
        else:
            line["quantity"] += amount
        self.toast(self.t("Added to cart"))

    def _change(self, line: Row, by: int) -> None:
        line["quantity"] += by
        if line["quantity"] < 1:
            self.remove("cart", line["_id"])

    def _order(self, number: int, lines: list[tuple[str, int]], address: str) -> None:
        total = sum(self.price(name) * quantity for name, quantity in lines)
        self.insert("orders", number=number, total=total, address=address)
        for name, quantity in lines:
            self.insert("order_items", number=number, name=name, quantity=quantity)

    def _place(self, page: Page) -> None:
        number = max((r["number"] for r in self.db["orders"]), default=10) + 1
        self._order(number, [(r["name"], r["quantity"]) for r in self.db["cart"]], page.args["address"])
        self.db["cart"] = []
        self.stack = [Page("main", {"tab": "Orders"})]
        self.go("order", number=number, new=True)
