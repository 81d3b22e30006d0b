//! [`S3Server::start_seaweed`]: S3 with SeaweedFS.

use std::path::Path;
use std::process::Command;

use hyper::{HeaderMap, Method, Request};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequestBody;

use crate::error::Error;
use crate::install;
use crate::port::Port;
use crate::process::Process;
use crate::request::status;
use crate::s3::{KEY_ID, REGION, S3Server, SECRET};
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
        let bucket = format!("/{BUCKET}");
        let signature = sign(Method::HEAD, &format!("http://127.0.0.1:{number}{bucket}"))?;
        // Before it has read the identities, the server refuses the signature.
        process.wait_until(|| status("HEAD", number, &bucket, &signature).is_ok_and(|status| status == 200))?;
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

/// Returns the headers of a signed request.
fn sign(method: Method, url: &str) -> Result<HeaderMap, Error> {
    let mut request = Request::new(HttpRequestBody::empty());
    *request.method_mut() = method;
    *request.uri_mut() = url.parse().map_err(|_| Error::Address(url.to_owned()))?;
    let credential = AwsCredential { key_id: KEY_ID.to_owned(), secret_key: SECRET.to_owned(), token: None };
    AwsAuthorizer::new(&credential, "s3", REGION).try_authorize(&mut request, None)?;
    Ok(request.headers().clone())
}

fn identities() -> String {
    let credentials = format!(r#"[{{"accessKey":"{KEY_ID}","secretKey":"{SECRET}"}}]"#);
    let actions = r#"["Admin","Read","Write","List","Tagging"]"#;
    format!(r#"{{"identities":[{{"name":"test","credentials":{credentials},"actions":{actions}}}]}}"#)
}
