"""Opens QUIC version 1 packets with short headers as RFC 9001 says, over OpenSSL.

It reads a list of packets as JSON: traffic secret, packet, and the frames that must be in it, all in hexadecimal; the
packet's number; how often the keys were updated before it.
"""

import json
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

ID = 8  # bytes of a connection ID


def expand(secret, label, length):
    label = b"tls13 " + label
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
    return HKDFExpand(algorithm=hashes.SHA256(), length=length, info=info).derive(secret)


def opened(p):
    packet, secret, number = bytearray.fromhex(p["Packet"]), bytes.fromhex(p["Secret"]), p["Number"]
    hp = Cipher(algorithms.AES(expand(secret, b"quic hp", 16)), modes.ECB()).encryptor()
    at = 1 + ID
    mask = hp.update(bytes(packet[at + 4 : at + 20]))
    packet[0] ^= mask[0] & 0x1F
    size = (packet[0] & 3) + 1
    for i in range(size):
        packet[at + i] ^= mask[1 + i]
    assert packet[0] & 0xC0 == 0x40 and packet[0] & 0x18 == 0, "not a short header"
    assert packet[0] >> 2 & 1 == p["Update"] % 2, "another key phase"
    assert int.from_bytes(packet[at : at + size], "big") == number % (1 << 8 * size), "another number"
    for _ in range(p["Update"]):
        secret = expand(secret, b"quic ku", 32)
    base = int.from_bytes(expand(secret, b"quic iv", 12), "big")
    aead = AESGCM(expand(secret, b"quic key", 16))
    head = at + size
    return aead.decrypt((base ^ number).to_bytes(12, "big"), bytes(packet[head:]), bytes(packet[:head]))


packets = json.load(sys.stdin)
for one in packets:
    if opened(one).hex() != one["Frames"]:
        sys.exit("packet %d holds other frames" % one["Number"])
print(len(packets), "packets open")
