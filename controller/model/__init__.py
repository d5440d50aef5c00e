"""The words: frozen values that every other part speaks in.

Never: I/O, clocks, randomness, settings read at import. Nothing here decides anything.
"""
