"""Shop: products by category, favourites, a cart with quantities, a checkout that asks twice, past orders."""

from __future__ import annotations

import random

from envs.phone.app import App, Page, Row
from envs.phone.ui import Dialog, Handler, Node, Screen
from envs.phone.widgets import (
    button,
    field,
    grid,
    icon_button,
    item,
    label,
    radio_item,
    section,
    tabs,
    text_button,
    tile,
)
from envs.phone.words import PRODUCTS

CATEGORIES = {
    "Books": ("book", "#5C6BC0"),
    "Garden": ("sun", "#43A047"),
    "Kitchen": ("cup", "#F4511E"),
    "Office": ("edit", "#546E7A"),
    "Sport": ("bike", "#00897B"),
    "Toys": ("game", "#D81B60"),
}
"""Category -> its icon and colour."""
OTHER = ("bag", "#78909C")
ADDRESSES = ("Home", "Work")
PAGES = ("Home", "Favourites", "Cart", "Orders")


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

    def populate(self, rng: random.Random) -> None:
        for category, names in PRODUCTS.items():
            for name in names:
                self.insert("products", name=name, category=category, price=rng.randrange(200, 9900, 50))
        for product in rng.sample(self.db["products"], 2):
            product["favourite"] = 1
        names = [r["name"] for r in self.db["products"]]
        for number in range(11, 13):
            self._order(number, [(n, rng.randint(1, 3)) for n in rng.sample(names, 2)], rng.choice(ADDRESSES))

    def product(self, name: str) -> Row | None:
        return next((r for r in self.db["products"] if r["name"] == name), None)

    def price(self, name: str) -> int:
        """In cents; 0 for what is no longer sold."""
        product = self.product(name)
        return product["price"] if product else 0

    def total(self) -> int:
        """What the cart costs, in cents."""
        return sum(self.price(line["name"]) * line["quantity"] for line in self.db["cart"])

    # --- the four main pages ---------------------------------------------------------------------------------

    def page_main(self, page: Page) -> Screen:
        shown: str = page.args.get("tab", "Home")
        body = {"Home": self._home, "Favourites": self._favourites, "Cart": self._cart, "Orders": self._orders}[shown]()
        bottom = tabs(PAGES, shown, {name: self._show(name) for name in PAGES}, ("home", "heart", "cart", "list"))
        actions = [icon_button("search", "Search", lambda: self.go("search", focus="query"))] if shown == "Home" else []
        return Screen("Shop" if shown == "Home" else shown, body, actions, bottom=bottom)

    def _show(self, tab: str) -> Handler:
        return lambda: self.replace("main", tab=tab)

    def _home(self) -> list[Node]:
        def open_category(name: str) -> Handler:
            return lambda: self.go("category", category=name)

        tiles = [tile(n, icon, color, open_category(n), height=112) for n, (icon, color) in CATEGORIES.items()]
        return [section("Categories"), *grid(tiles, 2)]

    def _favourites(self) -> list[Node]:
        liked = [r for r in self.db["products"] if r["favourite"]]
        return [self._row(r, self._unlike_button(r)) for r in liked] or [label("No favourites yet")]

    def _unlike_button(self, product: Row) -> Node:
        return icon_button("trash", f"Remove {product['name']}", lambda: product.update(favourite=0))

    def _cart(self) -> list[Node]:
        lines = [self._cart_row(line) for line in self.db["cart"]]
        if not lines:
            return [label("Your cart is empty")]
        pay = Node(pad=(16, 8), children=[button("Check out", lambda: self.go("checkout", address="Home"))])
        return [*lines, label(f"Total {money(self.total())}", size=18, bold=True), pay]

    def _cart_row(self, line: Row) -> Node:
        name, quantity = line["name"], line["quantity"]
        buttons = [
            icon_button("minus", f"Less {name}", lambda: self._change(line, -1)),
            icon_button("plus", f"More {name}", lambda: self._change(line, 1)),
        ]
        return item(name, f"{quantity} x {money(self.price(name))}", trailing=buttons)

    def _orders(self) -> list[Node]:
        orders = sorted(self.db["orders"], key=lambda r: -r["number"])
        return [self._order_row(r) for r in orders] or [label("No orders yet")]

    def _order_row(self, order: Row) -> Node:
        number = order["number"]
        return item(f"Order {number}", f"Total {money(order['total'])}", on_tap=lambda: self.go("order", number=number),
                    icon="bag")  # fmt: skip

    # --- pages below them ------------------------------------------------------------------------------------

    def _row(self, product: Row, *trailing: Node) -> Node:
        name, icon = product["name"], CATEGORIES.get(product["category"], OTHER)[0]
        return item(name, money(product["price"]), on_tap=lambda: self.go("product", product=name), icon=icon,
                    trailing=trailing)  # fmt: skip

    def page_category(self, page: Page) -> Screen:
        rows = [self._row(r) for r in self.db["products"] if r["category"] == page.args["category"]]
        return Screen(page.args["category"], rows, [self._cart_button()], on_up=self.up)

    def page_search(self, page: Page) -> Screen:
        query = page.fields.get("query", "").casefold().strip()
        hits = [r for r in self.db["products"] if query and query in r["name"].casefold()]
        return Screen("Search", [field("query", "Search products"), *(self._row(r) for r in hits)], on_up=self.up)

    def page_product(self, page: Page) -> Screen:
        product = self.product(page.args["product"])
        if product is None:
            return Screen("Product", [label("This is no longer sold")], on_up=self.up)
        amount = page.args.setdefault("amount", 1)
        icon, color = CATEGORIES.get(product["category"], OTHER)
        liked = product["favourite"]
        heart = icon_button("heart_filled" if liked else "heart", "Unfavourite" if liked else "Favourite",
                            lambda: product.update(favourite=1 - liked))  # fmt: skip
        body = [
            Node(cls="android.widget.ImageView", look="tile", icon=icon, color=color, height=180),
            label(money(product["price"]), size=22, bold=True),
            label("In stock" if product["stock"] else "Sold out"),
        ]
        if product["stock"]:
            body += [self._amount_row(page, amount), self._add_row(product["name"], amount)]
        return Screen(product["name"], body, [heart, self._cart_button()], on_up=self.up)

    def _amount_row(self, page: Page, amount: int) -> Node:
        def change(by: int) -> Handler:
            return lambda: page.args.update(amount=max(1, amount + by))

        return item("Quantity", trailing=[
            icon_button("minus", "Less", change(-1)),
            Node(cls="android.widget.TextView", text=str(amount), look="text", size=16, align="center", width=32,
                 height=24),
            icon_button("plus", "More", change(1)),
        ])  # fmt: skip

    def _add_row(self, name: str, amount: int) -> Node:
        return Node(pad=(16, 8), children=[button("Add to cart", lambda: self._add(name, amount))])

    def _cart_button(self) -> Node:
        return icon_button("cart", "Cart", lambda: self.go("main", tab="Cart"))

    def page_checkout(self, page: Page) -> Screen:
        def choose(address: str) -> Handler:
            return lambda: page.args.update(address=address)

        body = [section("Deliver to")]
        body += [radio_item(a, page.args["address"] == a, choose(a)) for a in ADDRESSES]
        body.append(label(f"Total {money(self.total())}", size=18, bold=True))
        order = button("Place order", lambda: self.open_dialog("confirm"), enabled=bool(self.db["cart"]))
        return Screen("Checkout", [*body, Node(pad=(16, 8), children=[order])], on_up=self.up)

    def dialog_confirm(self, page: Page) -> Dialog:
        buttons = [text_button("Cancel", self.close_dialog), text_button("Confirm", lambda: self._place(page))]
        return Dialog("Place order?", [label(f"You pay {money(self.total())}")], buttons)

    def page_order(self, page: Page) -> Screen:
        number = page.args["number"]
        order = next((r for r in self.db["orders"] if r["number"] == number), None)
        if order is None:
            return Screen("Order", [label("There is no such order")], on_up=self.up)
        lines = [r for r in self.db["order_items"] if r["number"] == number]
        body = [label("Thank you")] if page.args.get("new") else []
        body += [item(r["name"], f"Quantity {r['quantity']}") for r in lines]
        body += [item("Delivered to", order["address"]), label(f"Total {money(order['total'])}", size=18, bold=True)]
        return Screen(f"Order {number}", body, on_up=self.up)

    # --- changes ---------------------------------------------------------------------------------------------

    def _add(self, name: str, amount: int) -> None:
        line = next((r for r in self.db["cart"] if r["name"] == name), None)
        if line is None:
            self.insert("cart", name=name, quantity=amount)
        else:
            line["quantity"] += amount
        self.toast("Added to cart")

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
