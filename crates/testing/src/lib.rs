//! Scenario and fault tests against the built binary, with one scripted fake agent.
