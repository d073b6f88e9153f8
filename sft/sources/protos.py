"""Protocol buffers of the data sets: `tf.train.Example` and android_env's accessibility forest.

The messages are declared at run time in a separate descriptor pool: generated code would depend on the version of the
library, and the default pool would conflict with TensorFlow's or TensorBoard's messages. Unused fields are left out.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_Field = descriptor_pb2.FieldDescriptorProto
# message: {field: (number, type)}. "*" marks a repeated field; capitalized types are messages. A map is encoded as a
# repeated message of key and value.
_EXAMPLE = {
    "Example": {"features": (1, "Features")},
    "Features": {"feature": (1, "*Entry")},
    "Entry": {"key": (1, "string"), "value": (2, "Feature")},
    "Feature": {"bytes_list": (1, "BytesList"), "float_list": (2, "FloatList"), "int64_list": (3, "Int64List")},
    "BytesList": {"value": (1, "*bytes")},
    "FloatList": {"value": (1, "*float")},
    "Int64List": {"value": (1, "*int64")},
}
_FLAGS = (
    "checkable checked clickable editable enabled focusable focused long_clickable password scrollable selected "
    "visible_to_user"
).split()
_FOREST = {
    "Forest": {"windows": (1, "*Window")},
    "Window": {"layer": (4, "int32"), "window_type": (6, "int32"), "is_active": (8, "bool"), "tree": (11, "Tree")},
    "Tree": {"nodes": (1, "*Node")},
    "Rect": {"left": (1, "int32"), "top": (2, "int32"), "right": (3, "int32"), "bottom": (4, "int32")},
    "Node": {
        "unique_id": (1, "int32"),
        "bounds_in_screen": (2, "Rect"),
        "class_name": (3, "string"),
        "content_description": (4, "string"),
        "hint_text": (5, "string"),
        "package_name": (6, "string"),
        "text": (7, "string"),
        "view_id_resource_name": (10, "string"),
        **{f"is_{flag}": (number, "bool") for number, flag in enumerate(_FLAGS, start=12)},
        "child_ids": (25, "*int32"),
    },
}


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
            if kind[0].islower():
                added.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".mobilerl.{kind}"
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"mobilerl.{name}"))
        for name in _EXAMPLE | _FOREST
    }


def parse(name: str, data: bytes) -> Any:
    """Parses a message. Raises ValueError for invalid data."""
    try:
        return _classes()[name].FromString(data)
    except DecodeError as fault:
        raise ValueError(f"not a message of type {name}: {fault}") from None
