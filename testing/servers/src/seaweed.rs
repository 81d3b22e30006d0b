//! [`S3Server::start_seaweed`]: S3 with SeaweedFS.

use std::path::Path;
use std::process::Command;

use hyper::HeaderMap;

use crate::error::Error;
use crate::install;
use crate::port::Port;
use crate::process::Process;
use crate::request::status;
use crate::s3::{KEY_ID, S3Server, SECRET};
use crate::server::BUCKET;

/// Options with ports, which otherwise have fixed defaults.
const LISTENERS: [&str; 10] = [
    "-s3.port",
    "-s3.port.grpc",
    "-master.port",
    "-master.port.grpc",
    "-volume.port",
    "-volume.port.grpc",
    "-filer.port",
    "-filer.port.grpc",
    "-admin.port",
    "-admin.port.grpc",
];

impl S3Server {
    /// Installs SeaweedFS if necessary and starts it with an empty bucket. Blocks until it is ready.
    ///
    /// It verifies signatures and keeps objects on disk. Preconditions are exact, but concurrent creations of one
    /// object wait for a second or more. It replaces backslashes in keys by slashes. Only for Linux, because its
    /// package has no program for macOS.
    ///
    /// # Errors
    /// If the server cannot be installed or started.
    pub fn start_seaweed() -> Result<Self, Error> {
        let program = install::seaweedfs()?;
        let ports = LISTENERS.iter().map(|_| Port::reserve()).collect::<Result<Vec<_>, _>>()?;
        let number = ports[0].number();
        // Without a file of identities, the server accepts all writes. The script creates it in the server's directory.
        let start = r#"printf %s "$1" >identities.json; shift; exec "$@""#;
        let mut process = Process::start("seaweedfs", number, Path::new("sh"), |command| {
            command.args(["-c", start, "start"]).arg(identities()).arg(program);
            configure(command, &ports);
        })?;
        // An anonymous request for an existing bucket is forbidden.
        let look = || status("HEAD", number, &format!("/{BUCKET}"), &HeaderMap::new());
        process.wait_until(|| look().is_ok_and(|status| status == 403))?;
        Ok(Self::new(process, ports))
    }
}

fn configure(command: &mut Command, ports: &[Port]) {
    command.args(["-logtostderr=true", "mini", "-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
    command.arg(format!("-bucket={BUCKET}")).arg("-s3.config=identities.json");
    for (listener, port) in LISTENERS.iter().zip(ports) {
        command.arg(format!("{listener}={}", port.number()));
    }
    command.args(["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]);
    command.arg("-master.telemetry=false");
    // Relative, because the length of a socket's path is limited.
    command.args(["-s3.localSocket=s3.sock", "-filer.localSocket=filer.sock"]);
}

fn identities() -> String {
    let credentials = format!(r#"[{{"accessKey":"{KEY_ID}","secretKey":"{SECRET}"}}]"#);
    let actions = r#"["Admin","Read","Write","List","Tagging"]"#;
    format!(r#"{{"identities":[{{"name":"test","credentials":{credentials},"actions":{actions}}}]}}"#)
}
