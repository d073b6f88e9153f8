"""The protocol buffers of the data sets: `tf.train.Example` and android_env's accessibility forest.

google.protobuf does the parsing (in C, and it refuses what is malformed). The messages are declared here and built at
run time in a pool of their own: so they need no generated code, which is tied to versions of the library, and do not
meet TensorFlow's or TensorBoard's messages of the same names. Only fields that are read are declared.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "float": _Field.TYPE_FLOAT,
    "bool": _Field.TYPE_BOOL,
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
}

# message: {field: (number, type)}; a * in front of a type means repeated, and another name that message. On the wire a
# map is a repeated message of key and value.
_EXAMPLE = {
    "Example": {"features": (1, "Features")},
    "Features": {"feature": (1, "*Entry")},
    "Entry": {"key": (1, "string"), "value": (2, "Feature")},
    "Feature": {"bytes_list": (1, "BytesList"), "float_list": (2, "FloatList"), "int64_list": (3, "Int64List")},
    "BytesList": {"value": (1, "*bytes")},
    "FloatList": {"value": (1, "*float")},
    "Int64List": {"value": (1, "*int64")},
}
_FOREST = {
    "Forest": {"windows": (1, "*Window")},
    "Window": {"layer": (4, "int32"), "window_type": (6, "int32"), "is_active": (8, "bool"), "tree": (11, "Tree")},
    "Tree": {"nodes": (1, "*Node")},
    "Rect": {"left": (1, "int32"), "top": (2, "int32"), "right": (3, "int32"), "bottom": (4, "int32")},
    "Node": {
        "unique_id": (1, "int32"), "bounds_in_screen": (2, "Rect"), "class_name": (3, "string"),
        "content_description": (4, "string"), "hint_text": (5, "string"), "package_name": (6, "string"),
        "text": (7, "string"), "view_id_resource_name": (10, "string"), "is_checkable": (12, "bool"),
        "is_checked": (13, "bool"), "is_clickable": (14, "bool"), "is_editable": (15, "bool"),
        "is_enabled": (16, "bool"), "is_focusable": (17, "bool"), "is_focused": (18, "bool"),
        "is_long_clickable": (19, "bool"), "is_password": (20, "bool"),
        "is_scrollable": (21, "bool"), "is_selected": (22, "bool"),
        "is_visible_to_user": (23, "bool"), "child_ids": (25, "*int32"),
    },
}  # fmt: skip


@cache
def _classes() -> dict[str, type[Message]]:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="sources.proto", package="mobilerl", syntax="proto3")
    for name, fields in (_EXAMPLE | _FOREST).items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            kind = kind.lstrip("*")
            if kind in _KINDS:
                added.type = _KINDS[kind]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".mobilerl.{kind}"
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"mobilerl.{name}"))
        for name in _EXAMPLE | _FOREST
    }


def message(name: str, **fields: Any) -> Any:
    """A message of one of the types above."""
    return _classes()[name](**fields)


def parse(name: str, data: bytes) -> Any:
    """Raises ValueError for bytes that are not such a message."""
    try:
        return _classes()[name].FromString(data)
    except DecodeError as fault:
        raise ValueError(f"not a message of type {name}: {fault}") from None


def features(data: bytes) -> dict[str, list[Any]]:
    """The features of a serialized `tf.train.Example`. Raises ValueError when it is none, or has none."""
    found: dict[str, list[Any]] = {}
    for entry in parse("Example", data).features.feature:
        value = entry.value
        found[entry.key] = list(value.bytes_list.value or value.float_list.value or value.int64_list.value)
    if not found:
        raise ValueError("not an Example: it has no features")
    return found
