"""Arabic of Contacts, Messages, Notes, Tasks, Calendar, Clock and Calculator."""

from mobilerl.envs.phone.languages.language import Words

CONTACTS: Words = {
    "Contacts": "جهات الاتصال",
    "Contact": "جهة اتصال",
    "No contacts yet": "ما مِن جهات اتصال بعد",
    "New contact": "جهة اتصال جديدة",
    "Edit contact": "تعديل جهة الاتصال",
    "Search contacts": "البحث في جهات الاتصال",
    "This contact was deleted": "تم حذف جهة الاتصال هذه",
    "Add favourite": "إضافة إلى المفضّلة",
    "Remove favourite": "إزالة من المفضّلة",
    "No number": "بلا رقم",
    "First name": "الاسم الأول",
    "Last name": "اسم العائلة",
    "Email": "البريد الإلكتروني",
    "Message": "مراسلة",
    "Delete contact?": "هل تريد حذف جهة الاتصال؟",
    "A contact needs a name": "يجب إدخال اسم لجهة الاتصال",
    "Messages is not installed": "تطبيق الرسائل غير مثبّت",
    "Contact saved": "تم حفظ جهة الاتصال",
    "Contact deleted": "تم حذف جهة الاتصال",
    "Select a contact": "اختيار جهة اتصال",
}

MESSAGES: Words = {
    "Messages": "الرسائل",
    "No messages yet": "ما مِن رسائل بعد",
    "New message": "رسالة جديدة",
    "New": "جديد",
    "Draft: {text}": "مسودة: {text}",
    "Send": "إرسال",
    "Text message": "رسالة نصية",
    "Delete conversation?": "هل تريد حذف المحادثة؟",
    "Conversation deleted": "تم حذف المحادثة",
    "Nothing to send": "ما مِن نص لإرساله",
    "Select a conversation": "اختيار محادثة",
}

NOTES: Words = {
    "Notes": "الملاحظات",
    "Note": "ملاحظة",
    "No notes yet": "ما مِن ملاحظات بعد",
    "New note": "ملاحظة جديدة",
    "Edit note": "تعديل الملاحظة",
    "Pinned": "مثبّتة",
    "Pin": "تثبيت",
    "Unpin": "إزالة التثبيت",
    "Search notes": "البحث في الملاحظات",
    "This note was deleted": "تم حذف هذه الملاحظة",
    "Delete note?": "هل تريد حذف الملاحظة؟",
    "A note needs a title": "يجب إدخال عنوان للملاحظة",
    "Note saved": "تم حفظ الملاحظة",
    "Note deleted": "تم حذف الملاحظة",
    "Select a note": "اختيار ملاحظة",
}

TASKS: Words = {
    "Tasks": "المهام",
    "No tasks": "ما مِن مهام",
    "New task": "مهمة جديدة",
    "Edit task": "تعديل المهمة",
    "Filter": "فلترة",
    "Show": "عرض",
    "All": "الكل",
    "Open": "مفتوحة",
    "Open tasks": "المهام المفتوحة",
    "Done tasks": "المهام المكتملة",
    "High tasks": "المهام المهمة",
    "Done {title}": "تم: {title}",
    "{priority}, {day}": "{priority}، {day}",
    "Priority": "الأولوية",
    "Normal": "عادي",
    "No day": "بلا يوم",
    "A task needs a title": "يجب إدخال عنوان للمهمة",
    "Task saved": "تم حفظ المهمة",
    "Task deleted": "تم حذف المهمة",
    "Select a task": "اختيار مهمة",
}

CALENDAR: Words = {
    "Calendar": "التقويم",
    "No events": "ما مِن أحداث",
    "Month": "الشهر",
    "Add event": "إضافة حدث",
    "Event": "حدث",
    "Edit event": "تعديل الحدث",
    "This event was deleted": "تم حذف هذا الحدث",
    "Delete event?": "هل تريد حذف الحدث؟",
    "An event needs a title": "يجب إدخال عنوان للحدث",
    "Event saved": "تم حفظ الحدث",
    "Event deleted": "تم حذف الحدث",
    "Select an event": "اختيار حدث",
}

CLOCK: Words = {
    "Clock": "الساعة",
    "Alarm": "المنبّه",
    "Alarm {time}": "منبّه {time}",
    "Alarm set for {time}": "تم ضبط المنبّه على {time}",
    "Alarm deleted": "تم حذف المنبّه",
    "No alarms": "ما مِن منبّهات",
    "Add alarm": "إضافة منبّه",
    "This alarm was deleted": "تم حذف هذا المنبّه",
    "On": "مفعّل",
    "Label": "التصنيف",
    "No label": "بلا تصنيف",
    "Repeat daily": "تكرار يومي",
    "Vibrate": "اهتزاز",
    "World": "العالم",
    "Add city": "إضافة مدينة",
    "Timer": "الموقّت",
    "+1 min": "+1 د",
    "Stopwatch": "ساعة الإيقاف",
    "Lap": "دورة",
    "Lap {number}": "الدورة {number}",
    "Select an alarm": "اختيار منبّه",
}

CALCULATOR: Words = {
    "Calculator": "الآلة الحاسبة",
    "C": "C",
    "Del": "حذف",
    "History": "السجلّ",
    "Clear history": "محو السجلّ",
    "No history": "ما مِن سجلّ",
    "Cannot divide by zero": "لا يمكن القسمة على صفر",
    "Error": "خطأ",
}

DAILY: Words = {**CONTACTS, **MESSAGES, **NOTES, **TASKS, **CALENDAR, **CLOCK, **CALCULATOR}
