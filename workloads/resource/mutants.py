"""Planted bugs of the protected resource: its admission rule with one mistake.

`catalogue.mutants` names the property that each violates. Loaded only if a run names one.
"""

from __future__ import annotations

from holdfast.harness.core.operations import NO_TOKEN
from holdfast.workloads.resource.server import Register, Store


class UncheckedTokens(Store):
    """Admits every request in every mode."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        register.highest = max(register.highest, token)
        return True, register


class TolerantTokens(Store):
    """Admits a token that is older by one, and takes it as the newest."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        if token + 1 < register.highest:
            return False, register
        register.highest, register.attempt = token, attempt
        return True, register


class TokensAsText(Store):
    """Compares tokens as strings, as in a text column of a database: 10 < 9."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        if register.highest != NO_TOKEN and str(token) < str(register.highest):
            return False, register
        register.highest, register.attempt = token, attempt
        return True, register


class ShortMemory(Store):
    """Remembers only the newest token of the key that was requested last."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        for name, other in self.registers.items():
            if name != key:
                other.highest, other.attempt = NO_TOKEN, 0
        return super().admit(key, attempt, token)


class ForgetfulStore(Store):
    """Treats every write as a new one."""

    def applied(self, name: int) -> int | None:
        return None


class JealousTokens(Store):
    """Accepts each token once."""

    def admit(self, key: str, attempt: int, token: int) -> tuple[bool, Register]:
        register = self.registers.setdefault(key, Register())
        if token == register.highest:
            return False, register
        return super().admit(key, attempt, token)


class ForgottenJobs(Store):
    """Loses versions and commands in a restart, keeps the tokens."""

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
"""name -> store with that bug"""
