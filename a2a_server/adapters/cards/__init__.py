"""Signatures of agent cards (spec: SIGN).

1. `signing` reads the keys, signs cards, and publishes the public parts.
2. `checking` checks the signatures of a card for `a2ad card verify`: it fetches card and keys, and judges each one.
   `card_fault` does the same with a card that was fetched to call its agent.
"""

from a2a_server.adapters.cards.checking import CardReport, card_fault, check_card
from a2a_server.adapters.cards.signing import JwsSigner, card_jwks, card_keys

__all__ = ["CardReport", "JwsSigner", "card_fault", "card_jwks", "card_keys", "check_card"]
