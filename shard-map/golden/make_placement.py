"""Prints placement.tsv: what shard(name) must be for ever, computed without the crates that
Holdfast uses. Needs the Python package `xxhash`; the jump hash is written out from the paper
(Lamping and Veach, 2014).

    python3 make_placement.py > placement.tsv
"""

import json
import xxhash

SHARD_COUNTS = (1, 7, 256, 1024)


def jump(key, buckets):
    b, j = -1, 0
    while j < buckets:
        b = j
        key = (key * 2862933555777941757 + 1) % 2**64
        j = int(float(b + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return b


def names():
    yield from ("a", "b", "ab", " ", "0", "process_order:42", "worker-7-uuid", "a/b/c", "%2F", "=", "\\", '"')
    yield from ("ünï cödé", "u\u0308", "ü", "ß", "ſ", "日本語", "заказ:42", "طلب", "🔒", "🔒🔒", "e\u0301", "é")
    yield from ("\u00a0", "\u200b", "\ufeff", "\ufffd", "\U0010fffd", "\u2028")
    # Every length at which xxh3 takes another path (3, 8, 16, 128, 240 bytes), and its neighbours.
    for length in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129,
                   191, 239, 240, 241, 255, 256, 257, 383, 511, 512):
        yield "n" * length
        yield "".join(chr(ord("a") + (7 * i + length) % 26) for i in range(length))
    yield "é" * 256
    yield "日" * 170 + "ab"
    yield "🔒" * 128
    for i in range(150):
        yield f"order:{i}"
    for i in range(100):
        yield f"tenant-{i % 10}/invoice/{i * 7919}"


def main():
    print("# What shard(name) is, for ever: jump(xxh3_64(name bytes, seed 0), V) for V = 1, 7, 256 and 1024.")
    print("# A line that stops matching means that locks would be looked for where they are not.")
    print("# Made with golden/make_placement.py: Python's `xxhash` package (4.1.0, over the C reference")
    print("# implementation) and the jump hash written out from the paper, so neither crate checks itself.")
    print("# Columns: xxh3_64 in hex, the shard for each V, the name as a JSON string.")
    print("\t".join(("hash", *(f"V={v}" for v in SHARD_COUNTS), "name")))
    for name in dict.fromkeys(names()):
        data = name.encode()
        assert 1 <= len(data) <= 512
        h = xxhash.xxh3_64_intdigest(data, seed=0)
        print("\t".join((f"{h:016x}", *(str(jump(h, v)) for v in SHARD_COUNTS), json.dumps(name))))


main()
