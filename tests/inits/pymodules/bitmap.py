"""A stand-in for the module bitmap of PyPI, as far as tini's tests use it."""


class BitMap:
    def __init__(self, digits):
        self.digits = digits

    @classmethod
    def fromstring(cls, digits):
        return cls(digits)

    def nonzero(self):
        return [n for n, digit in enumerate(reversed(self.digits)) if digit == "1"]
