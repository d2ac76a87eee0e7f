"""The draft of December 2025, between 0.3 and 1.0: kebab-case and `final` as in 0.3, wrappers as in 1.0 (DRFT-02).

1. `json` reads and writes messages of 1.0 in the draft's spelling: names, words, and forms of a few types;
   and the agent card, with the deprecated members of 0.3.
2. Parts and push configs are those of 0.3: they go through the messages of 0.3, with the draft's names.
"""
