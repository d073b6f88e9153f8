"""adb's RSA handshake, which decides which hosts may connect.

The device sends a random token, which the host signs. A host whose keys are all unknown sends a public key, which on a
real phone opens the dialog "Allow USB debugging?". Nobody taps Allow here, so that host stays unauthorized.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable
from dataclasses import dataclass

TOKEN_SIZE = 20
MODULUS_BYTES = 256
_KEY = struct.Struct(f"<II{MODULUS_BYTES}s{MODULUS_BYTES}sI")
_SHA1 = bytes.fromhex("3021300906052b0e03021a05000414")
"""Prefix of a SHA-1 digest in PKCS#1 v1.5. The token takes the place of the digest."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    modulus: int
    exponent: int

    @classmethod
    def parse(cls, line: str | bytes) -> PublicKey:
        """Parses a line of `adbkey.pub`: Android's key structure in base64, then a comment. Raises ValueError."""
        text = line.encode() if isinstance(line, str) else line
        words = text.rstrip(b"\0").split()
        try:
            raw = base64.b64decode(words[0] if words else b"", validate=True)
        except binascii.Error as error:
            raise ValueError(f"not an adb public key: {error}") from None
        if len(raw) != _KEY.size:
            raise ValueError(f"not an adb public key: {len(raw)} bytes, not {_KEY.size}")
        words32, _n0, modulus, _rr, exponent = _KEY.unpack(raw)
        if words32 * 4 != MODULUS_BYTES:
            raise ValueError(f"not an adb public key: a modulus of {words32 * 32} bits, not {MODULUS_BYTES * 8}")
        key = cls(int.from_bytes(modulus, "little"), exponent)
        if key.modulus < 1 << (MODULUS_BYTES * 8 - 1):
            raise ValueError("not an adb public key: its modulus has leading zeros")
        return key

    def signed(self, token: bytes, signature: bytes) -> bool:
        """Whether `signature` is a signature of `token` with this key."""
        if len(signature) != MODULUS_BYTES or len(token) != TOKEN_SIZE:
            return False
        opened = pow(int.from_bytes(signature, "big"), self.exponent, self.modulus).to_bytes(MODULUS_BYTES, "big")
        padding = MODULUS_BYTES - 3 - len(_SHA1) - TOKEN_SIZE
        return opened == b"\0\1" + b"\xff" * padding + b"\0" + _SHA1 + token


def accepts(keys: Iterable[PublicKey], token: bytes, signature: bytes) -> bool:
    return any(key.signed(token, signature) for key in keys)


def read_keys(lines: Iterable[str]) -> tuple[PublicKey, ...]:
    """Parses one `adbkey.pub` line per key. Raises ValueError for an invalid line."""
    return tuple(PublicKey.parse(line) for line in lines if line.strip())
