"""Checks format-1.json and keys.json in this directory. It uses docs/encryption.md only and none of the Rust code.

    pip install cryptography
    python3 check.py
"""

import base64
import json
import pathlib
import re
import struct
import unicodedata

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hashlib import sha256


def xaes(key, nonce):
    """The AES-256-GCM cipher and nonce that XAES-256-GCM derives."""
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update
    subkey = int.from_bytes(block(bytes(16)), "big") << 1
    if subkey >> 128:
        subkey ^= 1 << 128 ^ 0x87
    derived = b""
    for counter in (1, 2):
        message = int.from_bytes(bytes([0, counter, 0x58, 0]) + nonce[:12], "big")
        derived += block((message ^ subkey).to_bytes(16, "big"))
    return AESGCM(derived), nonce[12:]


def decrypt(key, nonce, sealed, associated):
    cipher, short_nonce = xaes(key, nonce)
    return cipher.decrypt(short_nonce, sealed, associated)


def encrypt(key, nonce, message, associated):
    cipher, short_nonce = xaes(key, nonce)
    return cipher.encrypt(short_nonce, message, associated)


def unwrap(vector):
    """Unwraps a data key with a key or a passphrase."""
    wrapped = bytes.fromhex(vector["wrapped"])
    assert wrapped[0] == 1
    if "passphrase" not in vector:
        key = bytes.fromhex(vector["key"])
        fingerprint = sha256(b"memory-tool fingerprint of a key\x01" + key).hexdigest()[:16]
        assert vector["wrapped_by"] == "key-" + fingerprint
        return decrypt(key, wrapped[1:25], wrapped[25:], b"memory-tool data key wrapped by a key\x01")
    return unwrap_by_passphrase(wrapped, vector["passphrase"])


def unwrap_by_passphrase(wrapped, passphrase):
    memory, passes, lanes = struct.unpack(">III", wrapped[1:13])
    argon2 = Argon2id(salt=wrapped[13:29], length=64, iterations=passes, lanes=lanes, memory_cost=memory)
    derived = argon2.derive(unicodedata.normalize("NFC", passphrase).encode())
    if derived[32:] != wrapped[29:61]:
        raise ValueError("wrong passphrase")
    label = b"memory-tool data key wrapped by a passphrase\x01"
    return decrypt(derived[:32], wrapped[61:85], wrapped[85:], label + wrapped[:61])


MAX_FILE_BYTES = 4096


def read_key_file(content):
    """The key in a file, or None."""
    if len(content) > MAX_FILE_BYTES:
        return None
    if len(content) == 32:
        return None if is_text(content) else content
    text = content.strip(b" \t\n\f\r")
    if re.fullmatch(b"[0-9A-Fa-f]{64}", text):
        return bytes.fromhex(text.decode())
    for characters, altchars in ((b"[A-Za-z0-9+/]", b"+/"), (b"[A-Za-z0-9_-]", b"-_")):
        if re.fullmatch(characters + b"{43}=?", text):
            key = base64.b64decode(text[:43] + b"=", altchars)
            # The two unused bits must be zero.
            return key if base64.b64encode(key, altchars)[:43] == text[:43] else None
    return None


def is_text(content):
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return all(unicodedata.category(char) != "Cc" or char in "\t\n\r" for char in text)


def read_passphrase_file(content):
    """The passphrase in a file, or None."""
    if len(content) > MAX_FILE_BYTES:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if text.endswith("\n"):
        text = text[:-1].removesuffix("\r")
    return text or None


def check_keys(vectors):
    for vector in vectors["key_files"]:
        key = read_key_file(bytes.fromhex(vector["file"]))
        assert (key.hex() if key else None) == vector["key"], vector["what"]
    for vector in vectors["passphrase_files"]:
        passphrase = read_passphrase_file(bytes.fromhex(vector["file"]))
        try:
            data_key = passphrase and unwrap_by_passphrase(bytes.fromhex(vectors["wrapped"]), passphrase).hex()
        except ValueError:
            data_key = None
        assert data_key == (vectors["data_key"] if vector["opens"] else None), vector["what"]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        taken = self.data[self.at : self.at + length]
        assert len(taken) == length
        self.at += length
        return taken

    def number(self, length):
        return int.from_bytes(self.take(length), "big")


def padded_length(padding, length):
    if padding == "padmé":
        length += 1
        exponent = length.bit_length() - 1
        zeros = exponent - exponent.bit_length()
        return (length + (1 << zeros) - 1) >> zeros << zeros
    return (length // padding + 1) * padding


def check(vectors, data_keys, vector):
    stored = bytes.fromhex(vector["stored"])
    reader = Reader(stored)
    is_index = vector["name"].startswith("index-")
    is_padded = vector["padding"] != "none"
    assert reader.take(8) == b"\x8dMTE\r\n\x1a\n"
    assert list(reader.take(4)) == [1, 1 if is_index else 2, int(is_padded), 0]
    assert reader.take(16).hex() == vectors["store"]
    assert reader.take(16).hex() == (vector["name"][-1].zfill(32) if is_index else vector["name"])
    assert reader.take(16).hex() == vector["data_key"]
    nonce = reader.take(24)
    assert nonce.hex() == vector["nonce"]
    sealed_length = reader.number(8)
    if is_index:
        assert reader.number(2) == len(vectors["data_keys"])
        for slot in vectors["data_keys"]:
            assert reader.take(16).hex() == slot["id"]
            assert reader.take(reader.number(1)).decode() == slot["wrapped_by"]
            assert reader.take(reader.number(2)).hex() == slot["wrapped"]
    head, sealed = stored[: reader.at], stored[reader.at :]
    assert len(sealed) == sealed_length

    key = data_keys[vector["data_key"]]
    plaintext = bytes.fromhex(vector["plaintext"])
    padded = plaintext
    if is_padded:
        padded += b"\x80"
        padded = padded.ljust(padded_length(vector["padding"], len(plaintext)), b"\0")
    assert decrypt(key, nonce, sealed, head) == padded
    assert encrypt(key, nonce, padded, head) == sealed
    if is_index:
        check_index(vectors, vector, Reader(plaintext))


def check_index(vectors, vector, reader):
    ids = [slot["id"] for slot in vectors["data_keys"]]
    files = {file["path"]: file for file in vector["files"]}
    assert reader.number(8) == vector["revision"]
    assert reader.number(4) == len(files)
    paths = []
    for _ in files:
        paths.append("/memories/" + reader.take(reader.number(2)).decode())
        file = files[paths[-1]]
        assert reader.take(16).hex() == file["id"]
        assert ids[reader.number(2)] == file["data_key"]
        assert (reader.number(8) if reader.number(1) else None) == file["size"]
    if "label" in vector:
        assert reader.take(reader.number(2)).decode() == vector["label"]
    assert reader.at == len(reader.data)
    assert paths == sorted(paths, key=lambda path: path.encode().split(b"/"))


def read(name):
    return json.loads(pathlib.Path(__file__).with_name(name).read_text())


vectors = read("format-1.json")
data_keys = {vector["id"]: unwrap(vector) for vector in vectors["data_keys"]}
for vector in vectors["data_keys"]:
    assert data_keys[vector["id"]].hex() == vector["data_key"]
for vector in vectors["objects"]:
    check(vectors, data_keys, vector)
print(f"{len(data_keys)} data keys and {len(vectors['objects'])} stored objects match the format")

keys = read("keys.json")
check_keys(keys)
print(f"{len(keys['key_files'])} key files and {len(keys['passphrase_files'])} passphrase files match the format")
