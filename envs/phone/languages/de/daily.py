"""German of Contacts, Messages, Notes, Tasks, Calendar, Clock and Calculator."""

from mobilerl.envs.phone.languages.language import Words

CONTACTS: Words = {
    "Contacts": "Kontakte",
    "Contact": "Kontakt",
    "No contacts yet": "Noch keine Kontakte",
    "New contact": "Neuer Kontakt",
    "Edit contact": "Kontakt bearbeiten",
    "Search contacts": "Kontakte durchsuchen",
    "This contact was deleted": "Dieser Kontakt wurde gelöscht",
    "Add favourite": "Zu Favoriten hinzufügen",
    "Remove favourite": "Aus Favoriten entfernen",
    "No number": "Keine Nummer",
    "First name": "Vorname",
    "Last name": "Nachname",
    "Email": "E-Mail",
    "Message": "Nachricht",
    "Delete contact?": "Kontakt löschen?",
    "A contact needs a name": "Ein Kontakt braucht einen Namen",
    "Messages is not installed": "Nachrichten ist nicht installiert",
    "Contact saved": "Kontakt gespeichert",
    "Contact deleted": "Kontakt gelöscht",
    "Select a contact": "Kontakt auswählen",
}

MESSAGES: Words = {
    "Messages": "Nachrichten",
    "No messages yet": "Noch keine Nachrichten",
    "New message": "Neue Nachricht",
    "New": "Neu",
    "Draft: {text}": "Entwurf: {text}",
    "Send": "Senden",
    "Text message": "SMS",
    "Delete conversation?": "Unterhaltung löschen?",
    "Conversation deleted": "Unterhaltung gelöscht",
    "Nothing to send": "Es gibt nichts zu senden",
    "Select a conversation": "Unterhaltung auswählen",
}

NOTES: Words = {
    "Notes": "Notizen",
    "Note": "Notiz",
    "No notes yet": "Noch keine Notizen",
    "New note": "Neue Notiz",
    "Edit note": "Notiz bearbeiten",
    "Pinned": "Angepinnt",
    "Pin": "Anpinnen",
    "Unpin": "Loslösen",
    "Search notes": "Notizen durchsuchen",
    "This note was deleted": "Diese Notiz wurde gelöscht",
    "Delete note?": "Notiz löschen?",
    "A note needs a title": "Eine Notiz braucht einen Titel",
    "Note saved": "Notiz gespeichert",
    "Note deleted": "Notiz gelöscht",
    "Select a note": "Notiz auswählen",
}

TASKS: Words = {
    "Tasks": "Aufgaben",
    "No tasks": "Keine Aufgaben",
    "New task": "Neue Aufgabe",
    "Edit task": "Aufgabe bearbeiten",
    "Filter": "Filtern",
    "Show": "Anzeigen",
    "All": "Alle",
    "Open": "Offen",
    "Open tasks": "Offene Aufgaben",
    "Done tasks": "Fertige Aufgaben",
    "High tasks": "Wichtige Aufgaben",
    "Done {title}": "{title} fertig",
    "{priority}, {day}": "{priority}, {day}",
    "Priority": "Priorität",
    "Normal": "Normal",
    "No day": "Kein Tag",
    "A task needs a title": "Eine Aufgabe braucht einen Titel",
    "Task saved": "Aufgabe gespeichert",
    "Task deleted": "Aufgabe gelöscht",
    "Select a task": "Aufgabe auswählen",
}

CALENDAR: Words = {
    "Calendar": "Kalender",
    "No events": "Keine Termine",
    "Month": "Monat",
    "Add event": "Termin hinzufügen",
    "Event": "Termin",
    "Edit event": "Termin bearbeiten",
    "This event was deleted": "Dieser Termin wurde gelöscht",
    "Delete event?": "Termin löschen?",
    "An event needs a title": "Ein Termin braucht einen Titel",
    "Event saved": "Termin gespeichert",
    "Event deleted": "Termin gelöscht",
    "Select an event": "Termin auswählen",
}

CLOCK: Words = {
    "Clock": "Uhr",
    "Alarm": "Wecker",
    "Alarm {time}": "Wecker {time}",
    "Alarm set for {time}": "Wecker auf {time} gestellt",
    "Alarm deleted": "Wecker gelöscht",
    "No alarms": "Keine Wecker",
    "Add alarm": "Wecker hinzufügen",
    "This alarm was deleted": "Dieser Wecker wurde gelöscht",
    "On": "Eingeschaltet",
    "Label": "Bezeichnung",
    "No label": "Keine Bezeichnung",
    "Repeat daily": "Täglich wiederholen",
    "Vibrate": "Vibrieren",
    "World": "Weltuhr",
    "Add city": "Stadt hinzufügen",
    "Timer": "Timer",
    "+1 min": "+1 Min.",
    "Stopwatch": "Stoppuhr",
    "Lap": "Runde",
    "Lap {number}": "Runde {number}",
    "Select an alarm": "Wecker auswählen",
}

CALCULATOR: Words = {
    "Calculator": "Rechner",
    "C": "C",
    "Del": "Entf",
    "History": "Verlauf",
    "Clear history": "Verlauf löschen",
    "No history": "Kein Verlauf",
    "Cannot divide by zero": "Teilen durch null ist nicht möglich",
    "Error": "Fehler",
}

DAILY: Words = {**CONTACTS, **MESSAGES, **NOTES, **TASKS, **CALENDAR, **CLOCK, **CALCULATOR}
