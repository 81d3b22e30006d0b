//! The program reports errors that no retry cures at once, with the cure, and without it to the model.

use std::collections::BTreeSet;
use std::process::Command;

use memory_tool_test_fixtures::session::{Session, outcome};
use memory_tool_test_servers::{BUCKET, Fault, Faults, GcsServer, Proxy, Refusal, Requests, S3Server};
use serde_json::{Value, json};

use crate::program::{Cloud, NOBODY, program_without_clouds, with};

/// A timeout that no test waits for: an error that is retried fails the test.
const LONG: [&str; 2] = ["--timeout", "10m"];

const VIEW: [&str; 2] = ["view", "/memories"];
const CREATE: [&str; 4] = ["create", "/memories/a", "--text", "text"];

/// The variables of a server behind a proxy.
fn behind(proxy: &Proxy, cloud: &Cloud) -> Vec<(&'static str, String)> {
    cloud.0.environment(proxy.url())
}

fn s3_behind_a_proxy() -> (Cloud, Proxy) {
    let cloud = Cloud::s3();
    let proxy = Proxy::start(cloud.0.url()).unwrap();
    (cloud, proxy)
}

/// A command for the program that gives up late.
fn patient(arguments: &[&str], store: &str, environment: &[(&'static str, String)]) -> Command {
    let mut command = program_without_clouds();
    command.args(arguments).args(["--store", store]).args(LONG);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

/// Runs the program, which must report `reason` in one line.
fn assert_reports(arguments: &[&str], store: &str, environment: &[(&'static str, String)], reason: &str) {
    let (status, output, errors) = outcome(&mut patient(arguments, store, environment));
    assert_eq!((status, output.as_str(), errors.lines().count()), (Some(2), "", 1), "{errors}");
    let reported = errors.starts_with("memory-tool: cannot open the memory store at ") && errors.contains(reason);
    assert!(reported, "{arguments:?}: want {reason}\n got {errors}");
}

fn refuse_everything(proxy: &Proxy, refusal: Refusal) {
    let chances = vec![(Fault::RefuseBefore(refusal), 1.0)];
    proxy.fault_at_random(Faults { seed: 0, requests: Requests::all(), chances });
}

/// An opening sends up to two requests at once.
fn expect_no_repetition(proxy: &Proxy) {
    let records = proxy.records();
    assert!((1..=2).contains(&records.len()), "{records:?}");
    assert!(records.iter().skip(1).all(|record| record.target != records[0].target), "{records:?}");
}

#[test]
fn a_missing_bucket_is_reported_by_every_command_without_repetitions() {
    for cloud in [Cloud::s3(), Cloud::gcs(), Cloud::azure()] {
        let proxy = Proxy::start(cloud.0.url()).unwrap();
        let scheme = cloud.0.bucket_url().replace(BUCKET, "");
        let store = format!("{scheme}no-such-bucket/a");
        for arguments in [&VIEW[..], &CREATE, &["run"], &["verify"], &["gc"], &["run", "--read-only"]] {
            proxy.take_records();
            assert_reports(arguments, &store, &behind(&proxy, &cloud), "the bucket does not exist: create it");
            expect_no_repetition(&proxy);
        }
    }
}

#[test]
fn refusals_of_s3_are_reported_without_repetitions() {
    let (cloud, proxy) = s3_behind_a_proxy();
    for (refusal, reason) in [
        (Refusal::ExpiredToken, "the AWS credentials have expired: set AWS_ACCESS_KEY_ID"),
        (Refusal::OtherRegion, "the bucket is in another region: set AWS_REGION=eu-west-1"),
        (Refusal::OtherEndpoint, "set AWS_REGION to the bucket's region, or correct the endpoint"),
    ] {
        refuse_everything(&proxy, refusal);
        for arguments in [&VIEW[..], &CREATE] {
            proxy.take_records();
            assert_reports(arguments, &cloud.store(), &behind(&proxy, &cloud), reason);
            expect_no_repetition(&proxy);
        }
    }
}

/// The credentials of a tenant are often restricted to its prefix.
#[test]
fn other_memories_that_cannot_be_listed_are_unknown() {
    let (cloud, proxy) = s3_behind_a_proxy();
    let (alice, bob) = (format!("{}/alice", cloud.0.bucket_url()), format!("{}/bob", cloud.0.bucket_url()));
    for (store, others) in [(&bob, json!(0)), (&alice, json!(1))] {
        let environment = behind(&proxy, &cloud);
        assert_eq!(outcome(&mut patient(&CREATE, store, &environment)).0, Some(0));
        let verify = || {
            let (status, output, errors) = outcome(&mut patient(&["verify", "--json"], store, &environment));
            (status, serde_json::from_str::<Value>(&output).unwrap()["others"].clone(), errors.lines().count())
        };
        assert_eq!(verify(), (Some(0), others.clone(), usize::from(others == 1)));
        let chances = |refusal| vec![(Fault::RefuseBefore(refusal), 1.0)];
        let requests = || Requests::of("GET").with("delimiter");
        proxy.fault_at_random(Faults { seed: 0, requests: requests(), chances: chances(Refusal::ExpiredToken) });
        assert_eq!(verify(), (Some(0), Value::Null, 0));
        proxy.fault_at_random(Faults { seed: 0, requests: requests(), chances: chances(Refusal::OtherEndpoint) });
        assert_eq!(verify(), (Some(0), Value::Null, 1));
        proxy.heal();
    }
}

/// An open store reports the same errors for each command. It works again without them.
#[test]
fn refusals_of_commands_are_reported_without_repetitions_and_pass() {
    let (cloud, proxy) = s3_behind_a_proxy();
    let mut session = Session::start_as(&mut patient(&["run"], &cloud.store(), &behind(&proxy, &cloud)));
    let create = json!({"command": "create", "path": "/memories/a", "file_text": ""});
    let view = json!({"command": "view", "path": "/memories/a"});
    let commands = [
        view.clone(),
        json!({"command": "create", "path": "/memories/b", "file_text": "x".repeat(100_000)}),
        json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
    ];
    session.succeed(&create);
    let replies = [
        (Refusal::ExpiredToken, "The memory storage refused access. Nothing was changed."),
        (Refusal::OtherRegion, "The memory storage failed. Nothing was changed."),
    ];
    for (refusal, reply) in replies {
        refuse_everything(&proxy, refusal);
        for command in &commands {
            proxy.take_records();
            assert_eq!(session.fail(command), format!("Error: {reply}"), "{command}");
            // After a pause, a check of the log makes up to two other requests at the same time.
            let records = proxy.records();
            let requests: BTreeSet<_> = records.iter().map(|record| (&record.method, &record.target)).collect();
            assert!((1..=3).contains(&records.len()) && requests.len() == records.len(), "{command}: {records:?}");
        }
    }
    proxy.heal();
    session.succeed(&view);
    let (_, status, errors) = session.finish();
    assert!(status.success(), "{errors}");
    for reason in ["the AWS credentials have expired: set AWS_ACCESS_KEY_ID", "set AWS_REGION=eu-west-1"] {
        assert_eq!(errors.matches(reason).count(), commands.len(), "{errors}");
    }
}

#[test]
fn wrong_credentials_are_reported_with_the_variables_to_correct() {
    let (gcs, azure) = (Cloud::gcs(), Cloud::azure());
    for (cloud, variable, reason) in [
        (&gcs, "GOOGLE_BEARER_TOKEN", "the object store refused the credentials: renew them"),
        (&azure, "AZURE_STORAGE_ACCOUNT_KEY", "Azure refused the credentials: correct AZURE_STORAGE_ACCOUNT"),
    ] {
        assert_reports(&VIEW, &cloud.store(), &with(cloud, variable, "d3Jvbmc="), reason);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn wrong_keys_of_s3_are_reported_with_the_variable_to_correct() {
    let s3 = Cloud(Box::new(S3Server::start_seaweed().unwrap()));
    for (variable, reason) in [
        ("AWS_SECRET_ACCESS_KEY", "the AWS secret key is wrong: correct AWS_SECRET_ACCESS_KEY"),
        ("AWS_ACCESS_KEY_ID", "the AWS access key does not exist: correct AWS_ACCESS_KEY_ID"),
    ] {
        assert_reports(&VIEW, &s3.store(), &with(&s3, variable, "wrong"), reason);
    }
}

#[test]
fn absent_credentials_are_reported_with_the_variables_to_set() {
    let nowhere =
        [("HOME", "/nowhere".to_owned()), ("GCE_METADATA_IP", NOBODY.trim_start_matches("http://").to_owned())];
    for (store, reason) in [
        ("s3://bucket/a", "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("gs://bucket/a", "no Google Cloud credentials: set GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/a", "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY"),
    ] {
        assert_reports(&VIEW, store, &nowhere, reason);
    }
}

#[test]
fn unreadable_credentials_are_reported_with_their_source() {
    let role = ("AWS_ROLE_ARN", "arn:aws:iam::1:role/a".to_owned());
    let aws = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token".to_owned()), role];
    assert_reports(&VIEW, "s3://bucket/a", &aws, "the token file cannot be read: correct AWS_WEB_IDENTITY_TOKEN_FILE");
    let profile = [("AWS_PROFILE", "work".to_owned())];
    assert_reports(&VIEW, "s3://bucket/a", &profile, "AWS_PROFILE names the profile work");
    let az = [("AZURE_USE_AZURE_CLI", "true"), ("AZURE_STORAGE_ACCOUNT", "account"), ("PATH", "/nowhere")];
    let az = az.map(|(name, value)| (name, value.to_owned()));
    assert_reports(&VIEW, "az://container/a", &az, "`az` returned no token: run `az login`");
}

#[test]
fn refused_connections_are_reported_at_opening() {
    for (cloud, endpoint) in [
        (Cloud::s3(), "AWS_ENDPOINT_URL or AWS_REGION"),
        (Cloud::gcs(), "STORAGE_EMULATOR_HOST or GOOGLE_BASE_URL"),
        (Cloud::azure(), "AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_ENDPOINT or AZURITE_BLOB_STORAGE_URL"),
    ] {
        let reason = format!("the object store refused the connection: start the server, or correct {endpoint}");
        for arguments in [&VIEW[..], &CREATE] {
            assert_reports(arguments, &cloud.store(), &cloud.0.environment(NOBODY), &reason);
        }
    }
}

#[test]
fn unknown_hosts_are_reported_at_opening() {
    let cloud = Cloud::s3();
    let environment = cloud.0.environment("http://no-such-host.invalid");
    assert_reports(&CREATE, &cloud.store(), &environment, "the host of the object store is unknown: correct AWS_");
}

/// A server that is restarted refuses connections for a while.
#[test]
fn refused_connections_of_commands_are_retried_until_the_timeout() {
    let server = GcsServer::start_without_authentication().unwrap();
    let mut command = program_without_clouds();
    command.args(["run", "--store", "gs://test/a", "--timeout", "1s"]);
    let server_url = memory_tool_test_servers::Server::url(&server).to_owned();
    let mut session = Session::start_as(command.env("STORAGE_EMULATOR_HOST", &server_url));
    session.succeed(&json!({"command": "create", "path": "/memories/a", "file_text": ""}));
    drop(server);
    let reply = session.fail(&json!({"command": "view", "path": "/memories/a"}));
    assert_eq!(reply, "Error: The memory storage failed. Nothing was changed.");
    let (_, _, errors) = session.finish();
    assert!(errors.contains("not done within 1s: the object store refused the connection: start"), "{errors}");
}

#[test]
fn the_timeout_limits_an_opening() {
    let (cloud, proxy) = s3_behind_a_proxy();
    let chances = vec![(Fault::Swallow, 1.0)];
    proxy.fault_at_random(Faults { seed: 0, requests: Requests::all(), chances });
    let mut command = program_without_clouds();
    command.args(VIEW).args(["--store", &cloud.store(), "--timeout", "1s"]).envs(behind(&proxy, &cloud));
    let (status, _, errors) = outcome(&mut command);
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("not done within 1s: AmazonS3("), "{errors}");
    assert!(errors.contains(" did not respond within "), "{errors}");
}

fn refuse_puts(proxy: &Proxy, part: &str) {
    let (requests, chances) = (Requests::of("PUT").with(part), vec![(Fault::RefuseBefore(Refusal::AccessDenied), 1.0)]);
    proxy.fault_at_random(Faults { seed: 0, requests, chances });
}

#[test]
fn credentials_that_may_only_read_are_reported_with_the_option_to_use() {
    let (cloud, proxy) = s3_behind_a_proxy();
    let run = |arguments: &[&str]| outcome(&mut patient(arguments, &cloud.store(), &behind(&proxy, &cloud)));
    assert_eq!(run(&CREATE).0, Some(0));
    refuse_puts(&proxy, "");
    let (status, _, errors) = run(&CREATE);
    assert_eq!((status, errors.lines().count()), (Some(2), 1), "{errors}");
    let advice = "memory-tool: the credentials may not change the memory store at ";
    assert!(errors.starts_with(advice) && errors.contains("; add --read-only to use it unchanged: "), "{errors}");
    assert_eq!(run(&["view", "/memories/a", "--read-only"]).0, Some(0));
}

/// Commands succeed, and openings become slower. Only this line reports it.
#[test]
fn refused_checkpoints_are_reported_once() {
    let (cloud, proxy) = s3_behind_a_proxy();
    let mut session = Session::start_as(&mut patient(&["run"], &cloud.store(), &behind(&proxy, &cloud)));
    refuse_puts(&proxy, "contents/runs");
    for number in 0..600 {
        session.succeed(&json!({"command": "create", "path": format!("/memories/{number}"), "file_text": ""}));
    }
    let (_, status, errors) = session.finish();
    assert!(status.success(), "{errors}");
    let warnings: Vec<_> = errors.lines().filter(|line| line.contains("checkpoint")).collect();
    assert_eq!(warnings.len(), 1, "{errors}");
    assert!(warnings[0].starts_with("memory-tool: checkpoint not written: "), "{errors}");
    assert!(warnings[0].contains("AmazonS3(") && warnings[0].contains("the object store denied access"), "{errors}");
}

#[test]
fn plain_http_is_refused_with_the_variable_to_set() {
    let (s3, azure) = (Cloud::s3(), Cloud::azure());
    let proxy = Proxy::start(s3.0.url()).unwrap();
    let mut environment = behind(&proxy, &s3);
    environment.retain(|(name, _)| *name != "AWS_ALLOW_HTTP");
    let reason = "the endpoint is not encrypted: set AWS_ALLOW_HTTP=true to allow http://";
    assert_reports(&CREATE, &s3.store(), &environment, reason);
    assert_eq!(proxy.records(), [], "a request was sent without encryption");

    let mut environment = azure.0.environment(azure.0.url());
    environment.retain(|(name, _)| name.starts_with("AZURE_STORAGE_ACCOUNT"));
    environment.push(("AZURE_STORAGE_ENDPOINT", azure.0.url().to_owned()));
    assert_reports(&CREATE, &azure.store(), &environment, "set AZURE_ALLOW_HTTP=true to allow http://");
}

#[test]
fn the_variable_of_an_emulator_needs_no_credentials() {
    let gcs = Cloud(Box::new(GcsServer::start_without_authentication().unwrap()));
    let azure = Cloud::azure();
    let host = gcs.0.url().trim_start_matches("http://").to_owned();
    let azurite = || ("AZURITE_BLOB_STORAGE_URL", azure.0.url().to_owned());
    let connection = ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true".to_owned());
    for (number, (cloud, environment)) in [
        (&gcs, vec![("STORAGE_EMULATOR_HOST", gcs.0.url().to_owned())]),
        (&gcs, vec![("STORAGE_EMULATOR_HOST", host)]),
        (&azure, vec![("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()), azurite()]),
        (&azure, vec![connection, azurite()]),
    ]
    .into_iter()
    .enumerate()
    {
        let store = format!("{}/{number}/memory", cloud.0.bucket_url());
        for arguments in [&CREATE[..], &["verify"]] {
            let (status, _, errors) = outcome(&mut patient(arguments, &store, &environment));
            assert_eq!((status, errors.as_str()), (Some(0), ""), "{arguments:?} {environment:?}");
        }
    }
}
