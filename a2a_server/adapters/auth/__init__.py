"""Who calls: the schemes that the settings name, and the card that declares them (spec: AUTN, GATE-01, GATE-02).

1. `GuessLimit` refuses somebody who has presented too many wrong credentials.
2. `ConnectionCheck` (`proxy.py`) refuses revoked certificates, and reads what trusted proxies say.
3. `Schemes` (`schemes.py`) asks the schemes. Whatever is presented must be right, and must be enough.
4. A scheme is one way to prove who calls. It says where in a request its credentials are, what the card declares, what
   a challenge offers, and whose a credential is. There are `secrets`, `passwords`, `issuer` (signed `tokens`),
   `introspection` (opaque ones), `certificate` and `proxy`.

`verdicts.py` remembers what was checked, where a check is slow. `Schemes` remembers for a quarter of a second whom an
Authorization header has proven, so that a caller who calls often is looked up four times a second.
"""
