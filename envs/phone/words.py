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
NOTE_LINES = ("call the bank", "buy milk and bread", "water the plants", "fix the bike", "book a table",
              "clean the car", "return the keys", "print the tickets", "send the letter", "feed the cat",
              "pay the rent", "charge the camera")  # fmt: skip

FOLDERS = ("Documents", "Downloads", "Music", "Pictures")
NEW_FOLDERS = ("Work", "Home", "Family", "School", "Travel", "Health", "Taxes", "Letters", "Old", "Private")
SONGS = ("Summer Rain", "Blue River", "Silver Moon", "Golden Road", "Morning Light", "Winter Wind", "Red Balloon",
         "City Lights", "Ocean Drive", "Green Valley", "Night Train", "Paper Plane", "Slow Dance", "Lost Island",
         "Wild Horses", "Quiet Street", "Cold Water", "High Tower")  # fmt: skip
PLAYLISTS = ("Party", "Running", "Sleep", "Driving", "Cooking", "Focus", "Dinner", "Workout", "Holiday", "Sunday")
PRODUCTS = {
    "Books": ("Novel", "Atlas", "Cookbook", "Dictionary", "Comic", "Diary"),
    "Garden": ("Spade", "Rake", "Hose", "Lantern", "Bench", "Seeds"),
    "Kitchen": ("Kettle", "Toaster", "Blender", "Teapot", "Pan", "Mug", "Bowl", "Knife", "Scale", "Grill", "Mixer"),
    "Office": ("Lamp", "Printer", "Stapler", "Chair", "Desk", "Folder"),
    "Sport": ("Football", "Racket", "Helmet", "Skates", "Tent", "Backpack"),
    "Toys": ("Puzzle", "Robot", "Doll", "Kite", "Drum", "Blocks"),
}
"""What the shop sells, by category."""
PLACE_AREAS = ("City", "Old", "North", "River", "Central")
PLACE_KINDS = ("Park", "Museum", "Library", "Station", "Airport", "Hospital", "Bakery", "Cafe", "Cinema", "Pharmacy",
               "Stadium", "Theatre", "Market", "Hotel", "Pool", "Zoo")  # fmt: skip
STREETS = ("Main Street", "Park Road", "River Lane", "Hill Street", "Station Road", "Garden Lane")
EVENT_TITLES = ("Dentist", "Meeting", "Lunch", "Gym", "Concert", "Birthday", "Interview", "Yoga", "Haircut", "Dinner",
                "Football", "Piano", "Swimming", "Breakfast", "Party", "Class")  # fmt: skip
ALARM_LABELS = ("Work", "School", "Gym", "Medicine", "Walk", "Train", "Breakfast", "Meeting", "Class", "Yoga", "Piano",
                "Party")  # fmt: skip
CITIES = ("Athens", "Berlin", "Cairo", "Dubai", "Lima", "London", "Madrid", "Moscow", "Oslo", "Paris", "Rome",
          "Singapore", "Sydney", "Tokyo", "Toronto", "Vienna")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
MESSAGE_TEXTS = ("see you at noon", "thank you so much", "the train is late", "call me tonight", "dinner is ready",
                 "good luck today", "where are you", "the meeting is over", "bring your camera", "we need more milk",
                 "happy birthday", "see you in the garden")  # fmt: skip
MAIL_HOSTS = ("home", "work", "school", "club")
NETWORK_NAMES = ("Home", "Office", "Library", "Cafe", "Hotel", "School", "Station", "Airport", "Garden", "Studio",
                 "Kitchen", "Museum")  # fmt: skip
PASSWORDS = ("river", "apple", "tiger", "summer", "silver", "banana", "rocket", "window", "forest", "lemon")
DEVICE_NAMES = ("phone", "tablet", "camera", "device")
"""What a device is called after its owner's name."""
