"""The words phones are filled with and tasks are made of.

A small closed vocabulary on purpose: the tiny model reads whole words, and a held-out task is a new combination of
words it knows. New pools go here, so that its tokenizer (built from this module and the apps) covers them.
"""

from __future__ import annotations

FIRST_NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Iris", "Jonas", "Kira", "Leo",
               "Mia", "Noah", "Olga", "Paul", "Rosa", "Simon", "Tara", "Viktor")  # fmt: skip
LAST_NAMES = ("Adams", "Brown", "Clark", "Diaz", "Evans", "Fischer", "Garcia", "Hill", "Ivanov", "Jones", "Kim",
              "Lopez", "Moore", "Novak", "Olsen", "Park", "Rossi", "Silva", "Tanaka", "Weber")  # fmt: skip
NOTE_TITLES = ("Groceries", "Ideas", "Holiday", "Recipes", "Books", "Birthday", "Garden", "Budget", "Packing", "Films",
               "Workout", "Presents", "Repairs", "Music", "Quotes", "Plans")  # fmt: skip
NOTE_LINES = ("call the bank", "buy milk and bread", "water the plants", "fix the bike", "book a table", "clean the car",
              "return the keys", "print the tickets", "send the letter", "feed the cat", "pay the rent",
              "charge the camera")  # fmt: skip
