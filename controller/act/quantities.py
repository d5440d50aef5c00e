"""Amounts of resources as Kubernetes writes them (`500m`, `1.5Gi`, `2e3`): read, added up, written.

In: texts or numbers. Out: texts. Source: Kubernetes, API conventions, "Quantity".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18),
}  # fmt: skip
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|))\Z")


def amount_of(quantity: object) -> Fraction | None:
    """The amount; None where it is none: the API server has refused it, or will refuse the pod."""
    found = _FORM.match(str(quantity))
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * (_BINARY[suffix] if suffix in _BINARY else _DECIMAL[suffix or ""])


def total_of(quantities: Iterable[object]) -> str:
    """The sum, as whole numbers with the suffixes that its parts have: binary ones when all that are not 0 do."""
    amounts, is_binary = Fraction(0), True
    for each in quantities:
        amount = amount_of(each)
        if amount:
            amounts += amount
            is_binary = is_binary and str(each)[-2:] in _BINARY
    if amounts and is_binary and amounts.denominator == 1:
        for suffix, size in reversed(_BINARY.items()):
            if amounts % size == 0:
                return f"{amounts // size}{suffix}"
    for suffix in ("", "m", "u"):
        scaled = amounts / _DECIMAL[suffix]
        if scaled.denominator == 1:
            return f"{scaled}{suffix}"
    # Nothing finer is kept by Kubernetes; what is left is rounded up, as it does.
    return f"{-(-amounts // _DECIMAL['n'])}n"
