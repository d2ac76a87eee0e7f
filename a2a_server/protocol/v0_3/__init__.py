"""Pure functions between the messages of 0.3 (`a2a.v1`) and those of 1.0 (spec: LMAP).

`upgrade` makes 1.0 of 0.3 and `downgrade` the reverse, in every module alike; `calls` names them by RPC. What cannot be
mapped is refused with the spelling of 0.3; whether a mapped request is sound is the 1.0 core's to say, and `spelling`
puts its complaints into the words of 0.3. What gets lost on the way is listed in `losses`.
"""
