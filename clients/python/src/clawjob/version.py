"""Versions: of this package, and of the contract that it speaks."""

from __future__ import annotations

VERSION = "0.1.0"
PROTOCOL_MAJOR = 1
PROTOCOL_MINOR = 0
