//! [`Certificates`]: the certificates of a server with TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Directory, run};
use crate::error::{Doing as _, Error};

/// A certificate for the name `localhost` only, its authority, and an unrelated authority.
#[derive(Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    pub(super) fn new(owner: &Directory) -> Result<Self, Error> {
        let certificates = Self { directory: owner.path.join("tls") };
        let path = &certificates.directory;
        fs::create_dir(path).doing("creating the directory of certificates")?;
        for authority in ["authority", "stranger"] {
            let names = ["-subj", &format!("/CN={authority}"), "-addext", "basicConstraints=critical,CA:TRUE"];
            openssl(path, &["req", "-x509", "-days", "2"], &names, authority)?;
        }
        let signed = ["-CA", "authority.crt", "-CAkey", "authority.key", "-addext", "subjectAltName=DNS:localhost"];
        let names = ["-subj", "/CN=localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
        openssl(path, &["req", "-x509", "-days", "2"], &[&names[..], &signed[..]].concat(), "server")?;
        let key = path.join("server.key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).doing("protecting the key")?;
        owner.give(&key)?;
        Ok(certificates)
    }

    /// The certificate of the authority that signed the server's.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("authority.crt")
    }

    /// The certificate of an authority that signed nothing.
    pub fn stranger(&self) -> PathBuf {
        self.directory.join("stranger.crt")
    }

    pub(super) fn settings(&self) -> [(&'static str, String); 3] {
        let path = |name| self.directory.join(name).display().to_string();
        [("ssl", "on".to_owned()), ("ssl_cert_file", path("server.crt")), ("ssl_key_file", path("server.key"))]
    }
}

fn openssl(directory: &Path, command: &[&str], arguments: &[&str], name: &str) -> Result<(), Error> {
    let mut openssl = Command::new("openssl");
    openssl.args(command).args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(arguments).args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")]);
    run(openssl.current_dir(directory)).map(drop)
}
