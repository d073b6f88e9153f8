"""CRC-32C (Castagnoli) of long byte strings, vectorised with numpy.

The standard library has no CRC-32C, and a loop over the bytes would be slower than the disk by a factor of fifty. A CRC
is linear over GF(2): blocks are run through the usual table side by side, and their remainders joined pairwise with the
operator that appends as many zero bytes as the right block is long.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # reflected
BLOCK = 10  # log2 of the bytes of a block
SHORT = 256  # bytes below which a plain loop is faster

Words = NDArray[np.uint32]


@cache
def _byte_table() -> Words:
    """Remainder of every byte value."""
    words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        words = np.where(words & 1, (words >> 1) ^ np.uint32(POLYNOMIAL), words >> 1)
    return words


@cache
def _zeros(doublings: int) -> Words:
    """(4, 256) table of the operator that appends 2**doublings zero bytes, by the byte of the remainder."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if doublings:
        images = _apply(_zeros(doublings - 1), _apply(_zeros(doublings - 1), bits))
    else:
        images = _byte_table()[bits & 0xFF] ^ (bits >> 8)
    table = np.zeros((4, 256), np.uint32)
    for bit in range(32):
        has = (np.arange(256) >> (bit % 8)) & 1 == 1
        table[bit // 8, has] ^= images[bit]
    return table


def _apply(operator: Words, words: Words) -> Words:
    return (
        operator[0][words & 0xFF] ^ operator[1][(words >> 8) & 0xFF]
        ^ operator[2][(words >> 16) & 0xFF] ^ operator[3][words >> 24]
    )  # fmt: skip


def crc32c(data: bytes) -> int:
    if len(data) < SHORT:
        table, crc = _byte_table().tolist(), 0xFFFFFFFF
        for byte in data:
            crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    # Zeros in front change nothing when the register starts at 0; starting at all ones inverts the first four bytes.
    size = 1 << BLOCK
    padding = -len(data) % size
    padded = np.zeros(padding + len(data), np.uint8)
    padded[padding:] = np.frombuffer(data, np.uint8)
    padded[padding : padding + 4] ^= 0xFF
    columns = np.ascontiguousarray(padded.reshape(-1, size).T)
    table, crcs = _byte_table(), np.zeros(columns.shape[1], np.uint32)
    for column in columns:
        crcs = table[(crcs ^ column) & 0xFF] ^ (crcs >> 8)
    doublings = BLOCK
    while len(crcs) > 1:
        if len(crcs) % 2:
            crcs = np.concatenate([np.zeros(1, np.uint32), crcs])
        crcs = _apply(_zeros(doublings), crcs[::2]) ^ crcs[1::2]
        doublings += 1
    return int(crcs[0]) ^ 0xFFFFFFFF
