//! The program on bucket memories, configured only with each cloud's environment variables, on servers of each
//! protocol.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use memory_tool_test_fixtures::in_full;
use memory_tool_test_fixtures::session::{
    Outcome, PATIENCE, Place, Session, outcome, program, suite_program, wait_for_end,
};
use memory_tool_test_servers::{AzureServer, BUCKET, GcsServer, S3Server, Server};
use object_store::{ObjectStore, ObjectStoreExt as _, RetryConfig};
use serde_json::{Value, json};

/// The prefix of the store. Replies to the model must not contain it.
const PREFIX: &str = "of the/operator";

/// An address without a server.
pub(crate) const NOBODY: &str = "http://127.0.0.1:1";

/// A server with a memory in its bucket.
pub(crate) struct Cloud(pub(crate) Box<dyn Server>);

impl Cloud {
    /// The servers. The full tier has all tests on each of them.
    const ALL: [fn() -> Self; 3] = [Self::s3, Self::gcs, Self::azure];

    pub(crate) fn s3() -> Self {
        Self(Box::new(S3Server::start().unwrap()))
    }

    pub(crate) fn gcs() -> Self {
        Self(Box::new(GcsServer::start().unwrap()))
    }

    pub(crate) fn azure() -> Self {
        Self(Box::new(AzureServer::start().unwrap()))
    }

    /// The value of `--store`.
    pub(crate) fn store(&self) -> String {
        format!("{}/{}", self.0.bucket_url(), PREFIX.replace(' ', "%20"))
    }

    /// Returns a command for the program with the variables of the server only.
    fn program(&self) -> Command {
        let mut command = program_without_clouds();
        command.envs(self.0.environment(self.0.url()));
        command
    }

    /// The suite, on new stores in the store's place.
    fn suite(&self) -> Command {
        let mut command = without_clouds(suite_program());
        command.envs(self.0.environment(self.0.url())).args(["--store", &self.store()]);
        command
    }

    /// Runs a subcommand on the store. Returns the status, standard output and standard error.
    fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_on(&self.store(), arguments)
    }

    fn run_on(&self, store: &str, arguments: &[&str]) -> Outcome {
        outcome(self.program().args(arguments).args(["--store", store]))
    }

    fn assert_replies(&self, arguments: &[&str], reply: &str) {
        assert_eq!(self.run(arguments), (Some(0), format!("{reply}\n"), String::new()));
    }

    /// Starts a `run` process on the store.
    fn session(&self) -> Session {
        let mut command = self.program();
        Session::start_as(command.args(["run", "--store", &self.store()]))
    }

    fn keys(&self) -> Vec<String> {
        let list = async |bucket: &dyn ObjectStore| {
            bucket.list(None).map_ok(|object| object.location.to_string()).try_collect().await.unwrap()
        };
        let mut keys: Vec<_> = self.with_bucket(list);
        keys.sort_unstable();
        keys
    }

    /// Puts an object, as a defect or an attacker would.
    fn put(&self, key: &str, content: &str) {
        self.with_bucket(async |bucket| drop(bucket.put(&key.into(), content.to_owned().into()).await.unwrap()));
    }

    fn with_bucket<T>(&self, work: impl AsyncFnOnce(&dyn ObjectStore) -> T) -> T {
        let client = self.0.client(self.0.url(), RetryConfig::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work(&*client))
    }
}

/// Returns a command for the program without any cloud's variables.
pub(crate) fn program_without_clouds() -> Command {
    without_clouds(program())
}

fn without_clouds(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR_HOST"].iter().any(|cloud| name.starts_with(cloud)) {
            command.env_remove(&*name);
        }
    }
    // Prevents requests for credentials to a cloud's metadata address.
    command.env("AWS_METADATA_ENDPOINT", NOBODY).env("AZURE_MSI_ENDPOINT", NOBODY);
    command.env("GCE_METADATA_HOST", NOBODY.trim_start_matches("http://"));
    command
}

#[test]
fn the_six_commands_work_on_what_the_environment_names() {
    for start in Cloud::ALL {
        check_commands(&start());
    }
}

fn check_commands(cloud: &Cloud) {
    const HEADER: &str =
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:";
    let create = ["create", "/memories/d/a", "--text", "one\ntwo"];
    let missing = (Some(2), String::new(), format!("memory-tool: there is no memory store at {}\n", cloud.store()));
    for arguments in [&["verify"][..], &["view", "/memories"], &["run", "--read-only"], &["gc"], &["export", "-"]] {
        assert_eq!(cloud.run(arguments), missing, "{arguments:?}");
    }
    assert_eq!(cloud.keys(), [""; 0], "gc created a store");
    cloud.assert_replies(&create, "File created successfully at: /memories/d/a");
    assert!(cloud.keys().iter().all(|key| key.starts_with(PREFIX)), "{:?}", cloud.keys());
    let again = (Some(1), String::new(), "Error: File /memories/d/a already exists\n".to_owned());
    assert_eq!(cloud.run(&create), again);
    let edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):";
    let replace = ["str_replace", "/memories/d/a", "--old-str", "one", "--new-str", "1"];
    cloud.assert_replies(&replace, &format!("{edited}\n     1\t1\n     2\ttwo"));
    let insert = ["insert", "/memories/d/a", "--insert-line", "0", "--insert-text", "zero"];
    cloud.assert_replies(&insert, "The file /memories/d/a has been edited.");
    let rename = ["rename", "/memories/d", "/memories/e"];
    cloud.assert_replies(&rename, "Successfully renamed /memories/d to /memories/e");
    let content = "Here's the content of /memories/e/a with line numbers:\n     1\tzero\n     2\t1\n     3\ttwo";
    cloud.assert_replies(&["view", "/memories/e/a"], content);
    cloud.assert_replies(&["verify"], "1 file, 10 bytes: no problems found");
    cloud.assert_replies(&["delete", "/memories/e"], "Successfully deleted /memories/e");
    cloud.assert_replies(&["view", "/memories"], &format!("{HEADER}\n0B\t/memories"));
}

#[test]
fn the_suite_passes_and_leaves_the_bucket_as_it_was() {
    for start in &Cloud::ALL[..in_full(1, 3)] {
        check_suite(&start());
    }
}

fn check_suite(cloud: &Cloud) {
    cloud.assert_replies(&["create", "/memories/a", "--text", "mine"], "File created successfully at: /memories/a");
    let before = cloud.keys();
    let filters = ["--filter", in_full("delete.", "scopes."), "--filter", "delete."];
    let (status, output, errors) = outcome(cloud.suite().args(["--format", "json"]).args(filters));
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{output}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert!(report["totals"]["passed"].as_u64().is_some_and(|passed| passed >= 5), "{}", report["totals"]);
    assert_eq!(cloud.keys(), before);
}

#[test]
fn other_memories_near_a_prefix_are_reported() {
    for start in &Cloud::ALL[..in_full(1, 3)] {
        check_others(&start());
    }
}

fn check_others(cloud: &Cloud) {
    let tenants = format!("{}/tenants", cloud.0.bucket_url());
    let alice = format!("{tenants}/alice");
    for tenant in ["alice", "b%20b", "carl"] {
        let created = cloud.run_on(&format!("{tenants}/{tenant}"), &["create", "/memories/a", "--text", "x"]);
        assert_eq!(created.0, Some(0), "{created:?}");
    }
    cloud.put("tenants/reports/a.txt", "no memory");
    let others = |ending: &str| format!("memory-tool: {tenants} has 2 other memories, not included here\n{ending}");
    let verified = (Some(0), "1 file, 1 byte: no problems found\n".to_owned(), others(""));
    assert_eq!(cloud.run_on(&alice, &["verify"]), verified);
    let (status, output, errors) = cloud.run_on(&alice, &["export", "-", "--json"]);
    let report = errors.strip_prefix(&others("")).and_then(|report| serde_json::from_str::<Value>(report).ok());
    assert_eq!((status, output.is_empty()), (Some(0), false), "{errors}");
    assert_eq!(report.unwrap()["others"], 2, "{errors}");

    cloud.run_on(&alice, &["delete", "/memories/a"]);
    let error = format!(
        "memory-tool: there are no files in {alice}, but 2 other memories in {tenants}; name a memory, such as \
         {tenants}/b%20b, or add --all\n"
    );
    for arguments in [&["verify"][..], &["verify", "--json"], &["export", "-"]] {
        assert_eq!(cloud.run_on(&alice, arguments), (Some(2), String::new(), error.clone()), "{arguments:?}");
    }
}

#[test]
fn people_look_search_edit_and_forget() {
    for start in &Cloud::ALL[..in_full(1, 3)] {
        check_commands_of_people(&start());
    }
}

fn check_commands_of_people(cloud: &Cloud) {
    let tenants = format!("{}/people", cloud.0.bucket_url());
    let alice = format!("{tenants}/alice");
    let run = |arguments: &[&str]| {
        let (status, output, errors) = cloud.run_on(&alice, arguments);
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{arguments:?}: {output}");
        output
    };
    run(&["create", "notes/diet.md", "--text", "Likes tea.\n", "--history"]);
    run(&["append", "notes/diet.md", "No milk"]);
    assert_eq!(run(&["search", "TEA", "-i"]), "/memories/notes/diet.md:1:Likes tea.\n");
    assert_eq!(run(&["ls", "notes"]), "diet.md\n");
    run(&["mv", "notes/diet.md", "old/"]);
    assert_eq!(run(&["cat", "old/diet.md"]), "Likes tea.\nNo milk\n");
    assert_eq!(run(&["search", "tea", "--at", "1"]), "/memories/notes/diet.md:1:Likes tea.\n");
    assert_eq!(cloud.run_on(&alice, &["diff", &alice, "now"]).0, Some(0));
    run(&["rm", "-r", "old"]);
    run(&["undo"]);
    assert_eq!(run(&["ls", "-R"]), "/memories:\nold/\n\n/memories/old:\ndiet.md\n");
    cloud.run_on(&format!("{tenants}/bob"), &["create", "a", "--text", "x"]);
    let (_, listed, _) = cloud.run_on(&tenants, &["memories", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains(&format!("{{\"store\":\"{alice}\",\"scope\":null,\"files\":1,\"bytes\":19,")), "{listed}");
    let (status, output, errors) = cloud.run_on(&tenants, &["forget", "alice", "--yes"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        output.contains("with 1 file, its history and its records") && errors.contains("`memory-tool gc"),
        "{errors}"
    );
    assert_eq!(run(&["ls"]), "");
    let (status, output, errors) = cloud.run_on(&alice, &["log"]);
    assert_eq!((status, output.as_str()), (Some(0), ""));
    assert!(errors.starts_with("memory-tool: the memory has no history: "), "{errors}");
    let (status, output, _) = cloud.run_on(&tenants, &["verify", "--all"]);
    assert_eq!((status, output.matches("no problems found").count()), (Some(0), 2), "{output}");
}

#[test]
fn what_no_file_refers_to_is_collected_and_all_else_stays() {
    for start in &Cloud::ALL[..in_full(1, 3)] {
        check_collection(&start());
    }
}

fn check_collection(cloud: &Cloud) {
    // Too large for a commit.
    let text = "x".repeat(100_000);
    for path in ["/memories/a", "/memories/b"] {
        let mut session = cloud.session();
        session.succeed(&json!({"command": "create", "path": path, "file_text": text}));
        session.close();
    }
    cloud.assert_replies(&["delete", "/memories/a"], "Successfully deleted /memories/a");
    let before = cloud.keys();
    cloud.assert_replies(&["gc"], "removed 0 objects, 0 bytes; kept 2 objects; trimmed 0 commits");
    assert_eq!(cloud.keys(), before, "what is younger than a day is spared unless another age is given");
    let collected = "removed 1 object, 100000 bytes; kept 1 object; trimmed 3 commits";
    cloud.assert_replies(&["gc", "--older-than", "0s"], collected);
    let after = cloud.keys();
    let contents: Vec<_> = after.iter().filter(|key| key.contains("/contents/files/")).collect();
    assert!(matches!(contents[..], [key] if key.contains("/contents/files/b/")), "{after:?}");
    let (status, output, _) = cloud.run(&["gc", "--older-than", "0s", "--json"]);
    let report: Value = serde_json::from_str(&output).unwrap();
    let nothing = json!({
        "removed_objects": 0, "removed_bytes": 0, "kept_objects": 3, "kept_after_loss": 0, "trimmed_commits": 0,
        "foreign": [],
    });
    assert_eq!((status, report), (Some(0), nothing));
    assert_eq!(cloud.keys(), after, "there was nothing to collect");
    cloud.assert_replies(&["verify"], "1 file, 100000 bytes: no problems found");
}

/// The client cannot name a key with an empty segment, so only other programs put one.
#[test]
fn unreadable_keys_are_named_and_stay() {
    let cloud = Cloud::s3();
    cloud.assert_replies(&["create", "/memories/a", "--text", "text"], "File created successfully at: /memories/a");
    let key = format!("{}/contents/files/a//x", PREFIX.replace(' ', "%20"));
    let address = cloud.0.url().trim_start_matches("http://").to_owned();
    let mut connection = TcpStream::connect(&address).unwrap();
    write!(
        connection,
        "PUT /{BUCKET}/{key} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntext"
    )
    .unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");

    for number in 0..2 {
        cloud.run(&["create", &format!("/memories/{number}"), "--text", &"x".repeat(20_000)]);
        cloud.run(&["delete", &format!("/memories/{number}")]);
        let (status, output, errors) = cloud.run(&["gc", "--older-than", "0s", "--json"]);
        let report: Value = serde_json::from_str(&output).unwrap();
        assert!(status == Some(0) && report["removed_bytes"].as_u64() >= Some(20_000), "{report} {errors}");
        let foreign = report["foreign"].as_array().unwrap();
        assert!(foreign.iter().any(|name| name.as_str().unwrap().contains("contents/files/a//")), "{report}");
    }
    cloud.assert_replies(&["verify"], "1 file, 4 bytes: no problems found");
}

#[test]
fn an_encrypted_bucket_needs_its_key_except_for_gc() {
    let (cloud, place) = (Cloud::s3(), Place::new());
    let key = place.outside("key").display().to_string();
    assert_eq!(outcome(program().args(["keygen", "--output", &key])).0, Some(0));
    let with_key = |arguments: &[&str]| cloud.run(&[arguments, &["--key-file", &key]].concat());
    let verified = (Some(0), "1 file, 37 bytes: no problems found\n".to_owned(), String::new());
    assert_eq!(with_key(&["create", "/memories/a", "--text", "the customer called about her divorce"]).0, Some(0));
    assert_eq!(with_key(&["verify"]), verified);
    let (status, _, errors) = cloud.run(&["view", "/memories"]);
    assert!(status == Some(2) && errors.contains("the store is encrypted"), "{errors}");
    assert_eq!(cloud.run(&["gc", "--older-than", "0s"]).0, Some(0));
    assert_eq!(with_key(&["verify"]), verified);
}

#[test]
fn an_interrupted_suite_leaves_the_bucket_unchanged() {
    let cloud = Cloud::gcs();
    let mut command = cloud.suite();
    let mut process = command.args(["--jobs", "4"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while cloud.keys().len() < 3 {
        assert!(start.elapsed() < PATIENCE, "it does not begin");
        thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(kill.unwrap().success());
    wait_for_end(&mut process);
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(130), Vec::new()));
    assert_eq!(output.stderr, b"memory-tool-conformance: interrupted\n");
    assert_eq!(cloud.keys(), [""; 0]);
}

/// Returns the variables with a changed value.
pub(crate) fn with(cloud: &Cloud, name: &'static str, value: &str) -> Vec<(&'static str, String)> {
    let mut environment = cloud.0.environment(cloud.0.url());
    environment.retain(|(known, _)| *known != name);
    environment.push((name, value.to_owned()));
    environment
}

/// Tests the variables of Azure's command line and of Google's libraries, which `object_store` does not support.
#[test]
fn variables_of_cloud_tools_are_supported() {
    let create = ["create", "/memories/a", "--text", "text"];
    let azure = Cloud::azure();
    let of_server = azure.0.environment(azure.0.url());
    let value = |wanted| of_server.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str()).unwrap();
    let (account, key) = (value("AZURE_STORAGE_ACCOUNT_NAME"), value("AZURE_STORAGE_ACCOUNT_KEY"));
    let url = azure.0.url();
    let connection = format!("AccountName={account};AccountKey={key};BlobEndpoint={url}/{account};");
    let mut program = program_without_clouds();
    program.args(create).args(["--store", &azure.store()]).env("AZURE_STORAGE_CONNECTION_STRING", connection);
    let (status, _, errors) = outcome(&mut program);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    azure.assert_replies(&["verify"], "1 file, 4 bytes: no problems found");
    let mut program = program_without_clouds();
    program
        .args(["verify", "--store", &azure.store()])
        .env("AZURE_STORAGE_ACCOUNT", account)
        .env("AZURE_STORAGE_KEY", key);
    program.env("AZURE_STORAGE_ENDPOINT", format!("{url}/{account}")).env("AZURE_ALLOW_HTTP", "true");
    assert_eq!(outcome(&mut program).0, Some(0));

    let gcs = Cloud::gcs();
    let mut program = program_without_clouds();
    program.args(create).args(["--store", &gcs.store()]).env("STORAGE_EMULATOR_HOST", gcs.0.url());
    program.envs(gcs.0.environment(gcs.0.url()).into_iter().filter(|(name, _)| *name != "GOOGLE_BASE_URL"));
    let (status, _, errors) = outcome(&mut program);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
}

#[test]
fn invalid_settings_are_reported() {
    let arguments = ["--filter", "delete.", "--store", "az://container/a"];
    let (status, output, errors) = outcome(without_clouds(suite_program()).args(arguments));
    assert_eq!((status, output.as_str(), errors.lines().count()), (Some(2), "", 1), "{errors}");
}

#[test]
fn gc_refuses_stores_without_a_bucket() {
    let place = Place::new();
    for store in [place.store().display().to_string(), place.sqlite("a")] {
        let (status, output, errors) = outcome(program().args(["gc", "--store", &store]));
        assert_eq!((status, output.as_str()), (Some(2), ""));
        assert!(errors.starts_with("memory-tool: nothing to collect: "), "{errors}");
    }
    assert!(!place.store().exists() && !place.database().exists(), "gc created a store");
}

#[test]
fn invalid_urls_are_usage_errors() {
    for (arguments, reason) in [
        (&["--store", "s3:bucket"][..], "Write s3://bucket/prefix"),
        (&["--store", "gs://bucket?a=b"], "Write %3F or %23"),
        (&["--store", "az://container/../a"], "invalid prefix"),
        (&["--store", "s3://bucket", "--older-than", "24"], "a whole number with a unit, such as 90s, 15m, 24h or 7d"),
        (&["--store", "s3://bucket", "--older-than=-1h"], "a whole number with a unit"),
    ] {
        let (status, output, errors) = outcome(program_without_clouds().arg("gc").args(arguments));
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(errors.contains(reason), "want {reason}\n got {errors}");
    }
}
