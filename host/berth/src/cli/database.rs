//! Which database a command means, and who else can reach it.

use anyhow::bail;
use berth_core::Database;
use std::path::Path;
use url::{Host, Url};

use crate::data_dir::read_secret;

/// What `--database-url` may be.
///
/// # Errors
/// It names another kind of database, or holds a password.
pub fn check(url: Option<&Url>) -> anyhow::Result<()> {
    let Some(url) = url else { return Ok(()) };
    if !["postgres", "postgresql"].contains(&url.scheme()) {
        bail!(
            "--database-url must be a postgres:// URL; without it, SQLite in the data folder is used"
        );
    }
    if url.password().is_some() {
        bail!(
            "--database-url must not hold a password (it would be visible in the process list); use --database-password-file"
        );
    }
    Ok(())
}

/// Whether agents can reach the database as we do (LOC-001): they share our loopback network (LOC-007), and nothing is given
/// that they do not have.
pub fn is_open(url: Option<&Url>, password_file: Option<&Path>) -> bool {
    let Some(url) = url else {
        return false;
    };
    let socket = url
        .query_pairs()
        .any(|(name, value)| name == "host" && value.starts_with('/'));
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // The scheme is not one of the web's, so a literal address stays a name.
        Some(Host::Domain(name)) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    };
    loopback && !socket && password_file.is_none()
}

/// The database that the flags mean.
///
/// # Errors
/// The password file cannot be read.
pub fn of(url: Option<Url>, password: Option<&Path>) -> anyhow::Result<Database> {
    let Some(url) = url else {
        return Ok(Database::Sqlite);
    };
    let password = password.map(read_secret).transpose()?;
    let url = url.into();
    Ok(Database::Postgres { url, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    // LOC-001
    #[test]
    fn a_database_on_loopback_without_a_password_is_told() {
        let password = Some(Path::new("f"));
        assert!(!is_open(None, None));
        for (url, told) in [
            ("postgres://u@127.0.0.1:5432/d", true),
            ("postgres://u@localhost/d", true),
            ("postgres://u@[::1]/d", true),
            ("postgres://u@db.test/d", false),
            ("postgres://u@10.0.0.1/d", false),
            ("postgres://u@localhost/d?host=/run/postgresql", false),
            ("postgres:///d?host=/run/postgresql", false),
        ] {
            let url: Url = url.parse().unwrap();
            assert_eq!(is_open(Some(&url), None), told, "{url}");
            assert!(!is_open(Some(&url), password), "{url}");
        }
    }
}
