//! What each agent must find in its home and its environment to run against the stub model without asking.

use std::path::Path;

use serde_json::json;

/// Where an agent runs.
pub struct Surroundings<'a> {
    pub project: &'a Path,
    /// The stub model, as `http://127.0.0.1:PORT`.
    pub model_url: &'a str,
}

#[derive(Default)]
pub struct Settings {
    pub env: Vec<(&'static str, String)>,
    /// Path below the home, content.
    pub files: Vec<(&'static str, String)>,
}

// Some agents blank out the key wherever it appears, so it is no word that a screen would show.
const KEY: &str = "sk-fake-0000000000000000000000";

pub fn claude(at: &Surroundings) -> Settings {
    // Claude remembers an approved key by its end.
    let end_of_key = &KEY[KEY.len() - 20..];
    let state = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": { "approved": [end_of_key], "rejected": [] },
        "projects": { at.project.to_string_lossy(): { "hasTrustDialogAccepted": true, "allowedTools": [] } },
    });
    Settings {
        env: vec![
            ("ANTHROPIC_BASE_URL", at.model_url.to_owned()),
            ("ANTHROPIC_API_KEY", KEY.to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ],
        files: vec![(".claude.json", state.to_string())],
    }
}

pub fn codex(at: &Surroundings) -> Settings {
    // The switch for its daemon is missing on purpose: coven's harness must bring it.
    let config = format!(
        r#"model = "stub-model"
model_provider = "stub"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false
[model_providers.stub]
name = "Stub"
base_url = "{url}/v1"
env_key = "STUB_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[projects."{project}"]
trust_level = "trusted"
"#,
        url = at.model_url,
        project = at.project.display(),
    );
    Settings { env: vec![("STUB_API_KEY", KEY.to_owned())], files: vec![(".codex/config.toml", config)] }
}

pub fn gemini(at: &Surroundings) -> Settings {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    Settings {
        env: vec![("GEMINI_API_KEY", KEY.to_owned()), ("GOOGLE_GEMINI_BASE_URL", at.model_url.to_owned())],
        files: vec![(".gemini/settings.json", settings.to_string())],
    }
}

pub fn opencode(at: &Surroundings) -> Settings {
    let config = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "stub/stub-model",
        "small_model": "stub/stub-small",
        "enabled_providers": ["stub"],
        "permission": { "bash": "ask", "edit": "ask" },
        "provider": { "stub": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Stub",
            "options": { "baseURL": format!("{}/v1", at.model_url), "apiKey": KEY },
            "models": {
                "stub-model": { "name": "Stub", "limit": { "context": 200_000, "output": 8192 } },
                "stub-small": { "name": "Small" },
            },
        } },
    });
    Settings {
        env: vec![("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()), ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned())],
        files: vec![(".config/opencode/opencode.json", config.to_string())],
    }
}

pub fn copilot(at: &Surroundings) -> Settings {
    Settings {
        env: vec![
            ("COPILOT_OFFLINE", "true".to_owned()),
            ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", at.model_url)),
            ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
            ("COPILOT_MODEL", "stub-model".to_owned()),
            ("COPILOT_AUTO_UPDATE", "false".to_owned()),
        ],
        files: vec![(".copilot/config.json", json!({ "trustedFolders": [at.project] }).to_string())],
    }
}

pub fn goose(at: &Surroundings) -> Settings {
    let config = "GOOSE_TELEMETRY_ENABLED: false
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
";
    Settings {
        env: vec![
            ("OPENAI_HOST", at.model_url.to_owned()),
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
            ("GOOSE_PROVIDER", "openai".to_owned()),
            ("GOOSE_MODEL", "stub-model".to_owned()),
            ("GOOSE_MODE", "approve".to_owned()),
        ],
        files: vec![(".config/goose/config.yaml", config.to_owned())],
    }
}

pub fn kimi(at: &Surroundings) -> Settings {
    let config = format!(
        r#"default_model = "stub"
default_permission_mode = "manual"
telemetry = false
[providers.stub]
type = "openai"
base_url = "{url}/v1"
api_key = "{KEY}"
[models.stub]
provider = "stub"
model = "stub-model"
max_context_size = 200000
capabilities = ["tool_use", "thinking"]
"#,
        url = at.model_url,
    );
    Settings { env: vec![], files: vec![(".kimi-code/config.toml", config)] }
}

pub fn qwen(at: &Surroundings) -> Settings {
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    Settings {
        env: vec![
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("OPENAI_BASE_URL", format!("{}/v1", at.model_url)),
            ("OPENAI_MODEL", "stub-model".to_owned()),
        ],
        files: vec![(".qwen/settings.json", settings.to_string())],
    }
}

pub fn pi(at: &Surroundings) -> Settings {
    let model = json!({
        "id": "stub-model",
        "name": "Stub",
        "reasoning": false,
        "input": ["text"],
        "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 },
        "contextWindow": 200_000,
        "maxTokens": 8192,
    });
    let models = json!({ "providers": { "stub": {
        "baseUrl": format!("{}/v1", at.model_url),
        "apiKey": KEY,
        "api": "openai-completions",
        "models": [model],
    } } });
    let settings = json!({ "defaultProvider": "stub", "defaultModel": "stub-model" });
    Settings {
        env: vec![("PI_OFFLINE", "1".to_owned()), ("PI_SKIP_VERSION_CHECK", "1".to_owned())],
        files: vec![(".pi/agent/models.json", models.to_string()), (".pi/agent/settings.json", settings.to_string())],
    }
}

pub fn vibe(at: &Surroundings) -> Settings {
    let config = format!(
        r#"active_model = "stub"
enable_telemetry = false
enable_update_checks = false
[[providers]]
name = "stub"
api_base = "{url}/v1"
api_key_env_var = "STUB_API_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "stub-model"
provider = "stub"
alias = "stub"
"#,
        url = at.model_url,
    );
    Settings {
        env: vec![("STUB_API_KEY", KEY.to_owned()), ("MISTRAL_API_KEY", KEY.to_owned())],
        files: vec![(".vibe/config.toml", config)],
    }
}

/// It has no settings that would let it open a session over ACP.
pub fn cline(_: &Surroundings) -> Settings {
    Settings::default()
}
