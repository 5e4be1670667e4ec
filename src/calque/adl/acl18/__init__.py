"""The strings of the 2018 research code, read as definitions of the language: a reader for `check`."""

from calque.adl.acl18.read import read as read

__all__ = ["read"]
