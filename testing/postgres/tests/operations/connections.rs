//! TLS and passwords. A password comes from `PGPASSWORD` or the password file, and is in no message.
//!
//! The environment of a process cannot be changed safely, so a test runs [`open_in_a_process`] in another one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::sync::LazyLock;

use memory_tool_test_postgres::{Database, name_store, named_store, open_with};
use memory_tool_test_servers::{PostgresOptions, PostgresServer};

use crate::{create, impatient, message_of_opening, succeed};

static TLS: LazyLock<PostgresServer> = LazyLock::new(|| PostgresOptions::new().tls().start().unwrap());

/// Opens the named store and prints `opened` or the error.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other tests run this in a process"]
async fn open_in_a_process() {
    match open_with(&named_store().unwrap(), impatient()).await {
        Ok(store) => {
            succeed(&store, create(&format!("/memories/{}", std::process::id()), "x")).await;
            println!("opened with {store:?}");
        }
        Err(error) => println!("failed: {} {error:?}", message_of_opening(&error)),
    }
}

fn open_with_environment(url: &str, environment: &[(&str, &str)]) -> String {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "connections::open_in_a_process", "--ignored", "--nocapture"]);
    process.env("HOME", "/nowhere").envs(environment.iter().copied());
    name_store(&mut process, url);
    let Output { stdout, stderr, status } = process.output().unwrap();
    let output = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{output}");
    assert!(!output.contains("-password"), "{output}");
    output
}

/// The URL of a database at `localhost`, whose name is in the certificate.
fn url(database: &Database, parameters: &str) -> String {
    format!("postgres://{}@localhost:{}/{}?{parameters}", database.role(), TLS.port(), database.name())
}

const PASSWORD: (&str, &str) = ("PGPASSWORD", "secret-password");

#[test]
fn a_certificate_is_verified() {
    let database = Database::new(&TLS);
    let certificates = TLS.certificates().unwrap();
    let [authority, stranger] =
        [certificates.authority(), certificates.stranger()].map(|path| path.display().to_string());
    let verified = |roots: &str| url(&database, &format!("sslmode=verify-full&sslrootcert={roots}"));
    let opened = open_with_environment(&verified(&authority), &[PASSWORD]);
    assert!(opened.contains("opened"), "{opened}");
    let from_environment = [PASSWORD, ("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", &authority)];
    assert!(open_with_environment(&url(&database, ""), &from_environment).contains("opened"));
    let encrypted = format!(
        "SELECT count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE NOT ssl AND usename = '{}'",
        database.role()
    );
    assert_eq!(TLS.sql(&encrypted).unwrap(), "f");

    let refused = open_with_environment(&verified(&stranger), &[PASSWORD]);
    assert!(refused.contains("failed") && refused.contains("UnknownIssuer"), "{refused}");
    let refused = open_with_environment(&url(&database, "sslmode=verify-full"), &[PASSWORD]);
    assert!(refused.contains("failed"), "the system does not know the authority: {refused}");
    let by_address = verified(&authority).replace("localhost", "127.0.0.1");
    let refused = open_with_environment(&by_address, &[PASSWORD]);
    assert!(refused.contains("failed") && refused.contains("NotValidForName"), "{refused}");
    let authority_only = by_address.replace("verify-full", "verify-ca");
    assert!(open_with_environment(&authority_only, &[PASSWORD]).contains("opened"));
}

#[test]
fn a_server_without_tls_is_refused_if_it_is_required() {
    let server = memory_tool_test_postgres::server();
    let database = Database::new(server);
    let url = server.tcp_url(database.role(), database.name());
    let refused = open_with_environment(&format!("{url}?sslmode=verify-full"), &[PASSWORD]);
    assert!(refused.contains("failed") && refused.to_lowercase().contains("tls"), "{refused}");
    assert!(open_with_environment(&url, &[PASSWORD]).contains("opened"));
}

#[test]
fn passwords_come_from_the_environment_or_a_private_file() {
    let server = memory_tool_test_postgres::server();
    let database = Database::new(server);
    let url = server.tcp_url(database.role(), database.name());
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    let line = format!("127.0.0.1:{}:{}:{}:secret-password\n", server.port(), database.name(), database.role());
    fs::write(&file, format!("other:1:*:*:other-password\n{line}")).unwrap();
    let in_home = [("HOME", home.path().to_str().unwrap())];
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = open_with_environment(&url, &in_home);
    assert!(refused.contains("chmod 600"), "{refused}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(open_with_environment(&url, &in_home).contains("opened"));
    assert!(open_with_environment(&url, &[("PGPASSFILE", file.to_str().unwrap())]).contains("opened"));
    assert!(open_with_environment(&url, &[PASSWORD]).contains("opened"));

    for wrong in [&[("PGPASSWORD", "wrong-password")][..], &[]] {
        let refused = open_with_environment(&url, wrong);
        assert!(refused.contains("failed") && refused.contains("password"), "{refused}");
    }
}
