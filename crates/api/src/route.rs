//! Addresses of the daemon's routes, with everything a person typed escaped.

use std::fmt::Write;

/// `/api/v1/sessions/{id}` and what follows it, e.g. `/kill`.
pub fn session(id: &str, rest: &str) -> String {
    format!("/api/v1/sessions/{}{rest}", escaped(id))
}

/// `/api/v1/inbox/{id}` and what follows it, e.g. `/answer`.
pub fn question(id: &str, rest: &str) -> String {
    format!("/api/v1/inbox/{}{rest}", escaped(id))
}

/// `/api/v1/tasks/{id}` and what follows it, e.g. `/close`.
pub fn task(id: &str, rest: &str) -> String {
    format!("/api/v1/tasks/{}{rest}", escaped(id))
}

/// `/api/v1/workflows/{id}` and what follows it, e.g. `/retry`.
pub fn workflow(id: &str, rest: &str) -> String {
    format!("/api/v1/workflows/{}{rest}", escaped(id))
}

/// `/api/repos/{id}`.
pub fn repo(id: &str) -> String {
    format!("/api/repos/{}", escaped(id))
}

/// The harnesses as the caller's shell would find them.
pub fn harnesses(with_versions: bool) -> String {
    let path = std::env::var("PATH").ok();
    format!("/api/v1/harnesses{}", query(&[("versions", with_versions.then(|| "true".to_owned())), ("path", path)]))
}

/// A query string of the values that were given.
pub fn query(pairs: &[(&str, Option<String>)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(name);
            out.push('=');
            out.push_str(&escaped(value));
        }
    }
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_place_in_the_path() {
        assert_eq!(session("ab12", "/kill"), "/api/v1/sessions/ab12/kill");
        assert_eq!(session("a/../b?x#é", ""), "/api/v1/sessions/a%2F..%2Fb%3Fx%23%C3%A9");
    }

    #[test]
    fn a_query_has_what_was_given() {
        assert_eq!(query(&[("status", None), ("limit", None)]), "");
        let given = [("status", Some("running,failed".to_owned())), ("all", None), ("limit", Some("5".to_owned()))];
        assert_eq!(query(&given), "?status=running%2Cfailed&limit=5");
    }
}
