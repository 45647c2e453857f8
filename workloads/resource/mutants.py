"""The planted bugs of the protected resource: its rule of admission with one thing done wrong.

The front door's table says of each what it breaks. None of this is loaded unless a run asks for it.
"""

from __future__ import annotations

from holdfast.harness.core.operations import NO_TOKEN
from holdfast.workloads.resource.server import Register, Store


class UncheckedTokens(Store):
    """Admits everybody, whatever it was told to be."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        register.highest = max(register.highest, token)
        return True, register


class TolerantTokens(Store):
    """Admits a token that is older by one, and goes back to it."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        if token + 1 < register.highest:
            return False, register
        register.highest, register.attempt = token, attempt
        return True, register


class TokensAsText(Store):
    """Compares tokens as words, as who keeps them in a text column may: 10 is before 9."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        if register.highest != NO_TOKEN and str(token) < str(register.highest):
            return False, register
        register.highest, register.attempt = token, attempt
        return True, register


class ShortMemory(Store):
    """Knows the newest token of the key that was asked for last, and of no other."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        for name, other in self.registers.items():
            if name != key:
                other.highest, other.attempt = NO_TOKEN, 0
        return super().admit(key, attempt, token)


class ForgetfulStore(Store):
    """Takes every write for a new one."""

    def applied(self, name: int) -> int | None:
        return None


class JealousTokens(Store):
    """Takes each token once, as if its owner had nothing more to ask for."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        if token == register.highest:
            return False, register
        return super().admit(key, attempt, token)


class ForgottenJobs(Store):
    """Knows no version and no command any more after a restart, only the tokens."""

    def restarted(self) -> None:
        self.done.clear()
        for register in self.registers.values():
            register.version = 0


STORES: dict[str, type[Store]] = {
    "unchecked-tokens": UncheckedTokens,
    "tolerant-tokens": TolerantTokens,
    "forgotten-commands": ForgetfulStore,
    "tokens-as-text": TokensAsText,
    "short-memory": ShortMemory,
    "forgotten-jobs": ForgottenJobs,
    "jealous-tokens": JealousTokens,
}
"""name -> the store with that bug"""
