"""One card for readers of both versions."""

from a2a_server.protocol.v0_3.cards import superset


def test_every_object_gets_the_members_of_both() -> None:
    card = {
        "name": "N",
        "supportedInterfaces": [{"url": "u:x"}],
        "capabilities": {"streaming": True, "extendedAgentCard": False},
        "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "K"}}},
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "skills": [{"id": "a", "securityRequirements": []}, {"id": "b"}],
    }
    legacy = {
        "name": "N",
        "url": "u:x",
        "capabilities": {"streaming": True, "stateTransitionHistory": False},
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "K"}},
        "security": [{"key": []}],
        "skills": [{"id": "a", "security": []}, {"id": "b"}],
    }
    assert superset(card, legacy) == {
        "name": "N",
        "supportedInterfaces": [{"url": "u:x"}],
        "url": "u:x",
        "capabilities": {"streaming": True, "extendedAgentCard": False, "stateTransitionHistory": False},
        "securitySchemes": {
            "key": {
                "apiKeySecurityScheme": {"location": "header", "name": "K"},
                "type": "apiKey",
                "in": "header",
                "name": "K",
            }
        },
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "security": [{"key": []}],
        "skills": [{"id": "a", "securityRequirements": [], "security": []}, {"id": "b"}],
    }


def test_where_both_have_a_value_1_0_is_right() -> None:
    assert superset({"a": 1, "b": [1], "c": {}}, {"a": 2, "b": [1, 2], "c": 3}) == {"a": 1, "b": [1], "c": {}}
