"""List the functions that a process compiles, for scripts that tests run."""

from __future__ import annotations

LISTENING = """
import json, sys
import numba.core.event as event

class Compiled(event.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Compiled())
"""
"""Collects in Compiled.names the functions that Numba compiles from here on; imports json and sys."""
