//! What looks like a secret, by its name or by itself. Used to warn, to mask and to keep a child's environment small.

use std::borrow::Cow;

/// Words of a variable or header name that mark its value as secret.
const WORDS: &[&str] = &[
    "PASS",
    "PW",
    "PWD",
    "KEY",
    "KEYS",
    "CREDS",
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "PAT",
    "DSN",
    "COOKIE",
    "COOKIES",
    "JWT",
    "SESSION",
    "SIGNATURE",
    "PRIVATE",
    "SEED",
    "MNEMONIC",
];

/// Those that do so as a part of a word too: `MYSECRET`, `DBPASSWORD`.
const PARTS: &[&str] = &["SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY"];

/// Words beside which `TOKENS` are those that a model reads.
const COUNTS: &[&str] = &["MAX", "MIN", "NUM", "COUNT", "LIMIT", "BUDGET"];

/// Names with such a word in them that hold no secret: directories, sockets and kinds of the desktop's session.
const HARMLESS: &[&str] =
    &["PWD", "OLDPWD", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "SESSION_MANAGER"];

/// Beginnings that only issued credentials have.
const PREFIXES: &[&str] = &[
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "dop_v1_",
    "hf_",
    "SG.",
    "shpat_",
    "tvly-",
    "fc-",
    "BSA",
    "lin_api_",
    "ntn_",
    "secret_",
    "pat-",
    "sntrys_",
    "figd_",
];

/// Whether a variable or header of that name usually holds a secret.
pub fn name_looks_secret(name: &str) -> bool {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && previous_lower) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_uppercase());
        }
        previous_lower = c.is_ascii_lowercase();
    }
    words.push(word);
    if HARMLESS.contains(&name) || name.starts_with("XDG_SESSION_") {
        return false;
    }
    let counted = words.iter().any(|word| COUNTS.contains(&word.as_str()));
    words.iter().any(|word| {
        WORDS.contains(&word.as_str())
            || PARTS.iter().any(|part| word.contains(part))
            || word.ends_with("TOKEN")
            || (word.ends_with("TOKENS") && !counted)
    })
}

/// Whether a text looks like an issued credential, whatever it is called.
pub fn value_looks_secret(value: &str) -> bool {
    if let Some(kind) = value.trim_start().strip_prefix("-----BEGIN") {
        // What is made to be given away.
        return !["CERTIFICATE", "PUBLIC KEY"].iter().any(|public| kind.trim_start().starts_with(public));
    }
    let bare = ["Bearer ", "bearer ", "token ", "Basic "].iter().find_map(|p| value.strip_prefix(p)).unwrap_or(value);
    let dense = |text: &str| {
        text.len() >= 12
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '='))
            && text.chars().any(|c| c.is_ascii_digit())
    };
    if PREFIXES.iter().any(|prefix| bare.starts_with(prefix) && dense(bare)) {
        return true;
    }
    (bare.len() != value.len() && dense(bare)) || password_in_url(value)
}

/// `text` with `…` in place of every word that looks like an issued credential.
pub fn masked(text: &str) -> Cow<'_, str> {
    if value_looks_secret(text) {
        return "…".into();
    }
    let divides = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'));
    let is_secret = |word: &str| value_looks_secret(word.trim_start_matches('-'));
    if !text.split(divides).any(is_secret) {
        return text.into();
    }
    let pieces = text.split_inclusive(divides).map(|piece| {
        let word = piece.trim_end_matches(divides);
        if is_secret(word) { format!("…{}", &piece[word.len()..]) } else { piece.to_owned() }
    });
    pieces.collect::<String>().into()
}

/// `scheme://user:password@host`.
fn password_in_url(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return false };
    user.split_once(':').is_some_and(|(_, password)| !password.is_empty() && !password.contains("${"))
}

/// Whether a literal value under a secret-looking name is a stand-in and no secret.
pub fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    value.len() < 6
        || value.starts_with('<')
        || value.starts_with("/") && !value.contains(' ')
        || value.starts_with("./")
        || value.starts_with("~/")
        || [
            "your",
            "xxx",
            "changeme",
            "change-me",
            "example",
            "placeholder",
            "todo",
            "...",
            "***",
            "dummy",
            "none",
            "false",
            "true",
        ]
        .iter()
        .any(|word| lower.contains(word))
        || value.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in
            "GITHUB_TOKEN apiKey X-Api-Key Authorization AUTHORIZATION DB_PASSWORD DB_PW OPENAI_API_KEY SLACK_PAT \
             GITHUBTOKEN MYSECRET API_TOKENS AWS_CREDS WALLET_SEED SEED_PHRASE MNEMONIC walletMnemonic"
                .split_whitespace()
        {
            assert!(name_looks_secret(name), "{name}");
        }
        for name in
            "PATH PWD KEYBOARD MONKEY LOG_LEVEL TOKENIZERS SSH_AUTH_SOCK COMPASS XDG_SESSION_DESKTOP MAX_TOKENS SEEDLING"
                .split_whitespace()
        {
            assert!(!name_looks_secret(name), "{name}");
        }
    }

    #[test]
    fn masked_words() {
        assert_eq!(masked("npx -y server"), "npx -y server");
        assert_eq!(masked("ghp_0123456789abcdef"), "…");
        assert_eq!(masked("x --token=ghp_0123456789abcdef, TOKEN=sk-proj-a1b2c3d4e5f6"), "x --token=…, TOKEN=…");
        assert_eq!(masked("postgres://u:hunter2@db/x"), "…");
    }

    #[test]
    fn keys_in_pem() {
        for kind in ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY"] {
            assert!(value_looks_secret(&format!("-----BEGIN {kind}-----\nabc")), "{kind}");
        }
        assert_eq!(masked("-----BEGIN PRIVATE KEY-----\nabc"), "…");
        assert!(!value_looks_secret("-----BEGIN CERTIFICATE-----\nabc"));
        assert!(!value_looks_secret("-----BEGIN PUBLIC KEY-----\nabc"));
    }

    #[test]
    fn values() {
        for value in
            ["ghp_0123456789abcdef", "Bearer abc123def456ghi", "postgres://u:hunter2@db/x", "sk-proj-a1b2c3d4e5f6"]
        {
            assert!(value_looks_secret(value), "{value}");
        }
        for value in
            ["npx", "https://example.com/mcp", "postgres://u@db/x", "sk-learn", "a sentence with words", "/data"]
        {
            assert!(!value_looks_secret(value), "{value}");
        }
    }
}
