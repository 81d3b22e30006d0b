//! `[X1]`, `[X2]`: a process that is killed at any step of the protocol leaves the store as it was before its command or as
//! after it, and whoever comes next finds nothing to repair.
//!
//! The steps are the requests: between two of them nothing changes in the bucket. A proxy holds each request of each command,
//! once before the server sees it and once when the server has carried it out, and the process is killed there. How many
//! requests there are is counted first, so a new step is tested as soon as it exists. The test runs itself as the processes, so
//! it has no harness.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test prints, and fails by panicking")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool_core::{BoxError, Engine, MemoryTool as _, Store as _};
use memory_tool_object_store::BucketStore;
use memory_tool_test_checker::Model as _;
use memory_tool_test_object_stores::Mistake;
use memory_tool_test_object_stores::reference::{Files, Reference, batch_of, files_of};
use memory_tool_test_object_stores::session::{COLLECT, Session, program, serve_if_asked};
use memory_tool_test_object_stores::{INDEX, client};
use memory_tool_test_servers::{AzureServer, Fault, GcsServer, Proxy, Record, Requests, S3Server, Server};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// How long a process may take to come to a request.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<ExitCode, BoxError> {
    if serve_if_asked(Mistake::wrap)? {
        return Ok(ExitCode::SUCCESS);
    }
    let trials = vec![
        Trial::test("s3", || kill_at_every_task(&S3Server::start()?)),
        Trial::test("google_cloud_storage", || kill_at_every_task(&GcsServer::start()?)),
        Trial::test("azure", || kill_at_every_task(&AzureServer::start()?)),
        Trial::test("a_store_that_is_broken_is_found", || find_half_a_change(&GcsServer::start()?)),
    ];
    Ok(libtest_mimic::run(&Arguments::from_args(), trials).exit_code())
}

fn kill_at_every_task(server: &dyn Server) -> Result<(), Failed> {
    let stage = Stage::new(server, None);
    let (mut kills, mut made) = (0, 0);
    for task in tasks() {
        let outcomes = stage.kill_at_every_request(&task)?;
        let made_by_task = outcomes.iter().filter(|outcome| **outcome == Outcome::Made).count();
        if matches!(task.work, Work::Change(_)) && [0, outcomes.len()].contains(&made_by_task) {
            return Err(format!("{}: no kill, or each, came after the change", task.name).into());
        }
        kills += outcomes.len();
        made += made_by_task;
    }
    println!("{}: {kills} kills, {made} of them after the index was replaced", server.bucket_url());
    Ok(())
}

/// Kills processes that change directories file by file.
fn find_half_a_change(server: &dyn Server) -> Result<(), Failed> {
    let stage = Stage::new(server, Some(Mistake::SplitsChanges));
    for task in tasks().iter().filter(|task| task.name.ends_with("of a directory")) {
        match stage.kill_at_every_request(task) {
            Ok(_) => return Err(format!("{}: half a change is not found", task.name).into()),
            Err(found) => println!("{}", found.lines().next().unwrap_or_default()),
        }
    }
    Ok(())
}

/// What a process is killed at.
struct Task {
    name: &'static str,
    /// The files before.
    start: Files,
    work: Work,
    /// What it puts at least, by a part of the key.
    puts: &'static str,
}

impl Task {
    /// The files afterwards.
    fn end(&self) -> Files {
        match &self.work {
            Work::Change(command) => Reference::new().run(&self.start, command).1,
            Work::Open | Work::Collect => self.start.clone(),
        }
    }
}

/// What the process does.
enum Work {
    /// It opens the store and looks into it.
    Open,
    /// It changes the files by a command.
    Change(Value),
    /// It collects what no file refers to.
    Collect,
}

impl Work {
    /// What the process is asked to do.
    fn line(&self) -> String {
        match self {
            Self::Open => view().to_string(),
            Self::Change(command) => command.to_string(),
            Self::Collect => COLLECT.to_owned(),
        }
    }
}

/// Contents that are kept in an object of their own.
const LARGE: usize = 20_000;
/// Contents that are kept in the index, which holds as many as [`start`] makes, and puts all but a few into a pack when there is
/// one more.
const MEDIUM: usize = 14_000;

/// The parts of the keys.
const CONTENTS: &str = "contents";
const PACK: &str = "packs";
const PROBE: &str = "probe";

fn tasks() -> Vec<Task> {
    let task = |name, work, puts| Task { name, start: start(), work, puts };
    let change = |name, command, puts| task(name, Work::Change(command), puts);
    let create = |size| json!({"command": "create", "path": "/memories/new/file", "file_text": "n".repeat(size)});
    let replace = |path| json!({"command": "str_replace", "path": path, "old_str": "mark", "new_str": "new"});
    let insert = |path| json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "new"});
    let delete = |path| json!({"command": "delete", "path": path});
    let rename = |path| json!({"command": "rename", "old_path": path, "new_path": "/memories/new/name"});
    vec![
        task("opening", Work::Open, PROBE),
        Task { start: Files::new(), ..change("the first create", create(10), INDEX) },
        change("create of a small file", create(10), INDEX),
        change("create of a large file", create(LARGE), CONTENTS),
        change("create that puts a pack", create(MEDIUM), PACK),
        change("str_replace in a small file", replace("/memories/small"), INDEX),
        change("str_replace in a large file", replace("/memories/large"), CONTENTS),
        change("insert into a small file", insert("/memories/small"), INDEX),
        change("insert into a large file", insert("/memories/large"), CONTENTS),
        change("delete of a small file", delete("/memories/small"), INDEX),
        change("delete of a large file", delete("/memories/large"), INDEX),
        change("delete of a directory", delete("/memories/directory"), INDEX),
        change("rename of a small file", rename("/memories/small"), INDEX),
        change("rename of a large file", rename("/memories/large"), INDEX),
        change("rename of a directory", rename("/memories/directory"), INDEX),
        task("collection", Work::Collect, INDEX),
    ]
}

fn view() -> Value {
    json!({"command": "view", "path": "/memories"})
}

/// The files before most tasks.
fn start() -> Files {
    let file = |name: &str, size| {
        (format!("/memories/{name}").parse().unwrap(), format!("mark\n{}", "x".repeat(size)).into_bytes())
    };
    let medium = (0..9).map(|number| file(&format!("directory/{number}"), MEDIUM));
    medium.chain([file("small", 10), file("large", LARGE)]).collect()
}

/// Where a process is killed.
#[derive(Clone, Copy, Debug)]
struct Kill {
    /// The request, of which the first is 1.
    number: usize,
    moment: Moment,
}

/// When it is killed there.
#[derive(Clone, Copy, Debug)]
enum Moment {
    BeforeTheServerSeesIt,
    AfterTheServerHasDoneIt,
}

impl Moment {
    /// What holds a request then.
    fn fault(self) -> Fault {
        match self {
            Self::BeforeTheServerSeesIt => Fault::Swallow,
            Self::AfterTheServerHasDoneIt => Fault::Hang,
        }
    }

    fn has_come(self, held: &Record) -> bool {
        match self {
            Self::BeforeTheServerSeesIt => true,
            Self::AfterTheServerHasDoneIt => held.status.is_some(),
        }
    }
}

/// What became of a task whose process was killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The index was replaced, so the whole change is to be there.
    Made,
    /// It was not, so nothing of it is.
    NotMade,
}

/// Where processes are killed: a server, on which each has a store of its own.
struct Stage<'a> {
    server: &'a dyn Server,
    bucket: Arc<dyn ObjectStore>,
    runtime: Runtime,
    stores: Cell<usize>,
    mistake: Option<Mistake>,
}

impl<'a> Stage<'a> {
    fn new(server: &'a dyn Server, mistake: Option<Mistake>) -> Self {
        Self {
            server,
            bucket: client(server).unwrap(),
            runtime: Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
            stores: Cell::new(0),
            mistake,
        }
    }

    /// What becomes of the task at each request and moment.
    ///
    /// # Errors
    /// What is left that should not be.
    fn kill_at_every_request(&self, task: &Task) -> Result<Vec<Outcome>, String> {
        let requests = self.count_requests(task);
        let moments = [Moment::BeforeTheServerSeesIt, Moment::AfterTheServerHasDoneIt];
        let kills = (1..=requests).flat_map(|number| moments.map(|moment| Kill { number, moment }));
        kills.map(|kill| self.kill(task, kill)).collect()
    }

    fn count_requests(&self, task: &Task) -> usize {
        let prefix = self.new_store(&task.start);
        let mut process = self.begin(&prefix, task, None);
        process.session.receive().unwrap();
        let requests = process.proxy.records();
        assert!(requests.iter().any(|request| is_put(request, task.puts)), "{} puts no {}", task.name, task.puts);
        let files = self.runtime.block_on(async { files_of(&self.open(&prefix).await).await });
        assert!(files == task.end(), "{} does not what it should", task.name);
        requests.len()
    }

    /// Kills a process, and checks what it leaves.
    fn kill(&self, task: &Task, kill: Kill) -> Result<Outcome, String> {
        let prefix = self.new_store(&task.start);
        let process = self.begin(&prefix, task, Some(kill));
        let requests = wait_for(&process.proxy, kill);
        process.session.kill().unwrap();

        let outcome =
            if requests.iter().any(|request| is_put(request, INDEX)) { Outcome::Made } else { Outcome::NotMade };
        let expected = if outcome == Outcome::Made { task.end() } else { task.start.clone() };
        let checked = self.check(&prefix, expected);
        checked.map(|()| outcome).map_err(|what| format!("{}, {kill:?}: {what}\n{requests:#?}", task.name))
    }

    /// Lets a process do the task, up to the request at which it is to be killed. The proxy records nothing but that.
    fn begin(&self, prefix: &Path, task: &Task, kill: Option<Kill>) -> Process {
        let proxy = Proxy::start(self.server.url()).unwrap();
        let mut program = program(self.server, proxy.url(), prefix).unwrap();
        program.envs(self.mistake.map(Mistake::variable));
        let hold = || kill.iter().for_each(|kill| proxy.fault_at(Requests::all(), kill.number, kill.moment.fault()));
        let mut session = match task.work {
            Work::Open => {
                hold();
                Session::start(&mut program).unwrap()
            }
            Work::Change(_) | Work::Collect => {
                let mut session = Session::start(&mut program).unwrap();
                session.ask(view()).unwrap();
                proxy.take_records();
                hold();
                session
            }
        };
        session.send(task.work.line()).unwrap();
        Process { proxy, session }
    }

    /// A store with these files, and with contents that no file refers to.
    fn new_store(&self, files: &Files) -> Path {
        let number = self.stores.replace(self.stores.get() + 1);
        let prefix = Path::from(format!("kills/{number}"));
        self.runtime.block_on(async {
            self.open(&prefix).await.apply(batch_of(files)).await.unwrap();
            for name in ["one", "two"] {
                self.bucket.put(&contents(&prefix).join("unused").join(name), "unused".into()).await.unwrap();
            }
        });
        prefix
    }

    async fn open(&self, prefix: &Path) -> BucketStore {
        BucketStore::open(Arc::clone(&self.bucket), prefix.clone()).await.unwrap()
    }

    /// Checks that the files are there and no others, and that the next process can change the store and collect what is left.
    fn check(&self, prefix: &Path, mut files: Files) -> Result<(), String> {
        self.runtime.block_on(async {
            let tool = Engine::new(self.open(prefix).await);
            require(files_of(tool.store()).await == files, "the change was made in part")?;
            let create = json!({"command": "create", "path": "/memories/next", "file_text": "next"});
            tool.call(create).await.unwrap();
            files.insert("/memories/next".parse().unwrap(), b"next".to_vec());
            tool.store().gc(Duration::ZERO).await.unwrap();
            require(files_of(tool.store()).await == files, "the next change did more, or less")?;
            let probes = self.objects(&prefix.clone().join(PROBE)).await;
            require(probes.len() <= 1, "the killed process left more than the probe of its opening")?;
            let others = &self.objects(prefix).await - &probes;
            require(others == self.objects_in_use(prefix).await, "the next collection left something")
        })
    }

    async fn objects(&self, prefix: &Path) -> BTreeSet<Path> {
        self.bucket.list(Some(prefix)).map_ok(|object| object.location).try_collect().await.unwrap()
    }

    /// The index, and the objects that it refers to.
    async fn objects_in_use(&self, prefix: &Path) -> BTreeSet<Path> {
        let at = prefix.clone().join("index.json");
        let index = self.bucket.get(&at).await.unwrap().bytes().await.unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let files = index["files"].as_object().unwrap().values();
        let keys = files.filter_map(|file| file["content"]["object"]["key"].as_str());
        let contents = keys.map(|key| Path::parse(format!("{}/{key}", contents(prefix))).unwrap());
        contents.chain([at]).collect()
    }
}

fn require(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// What all objects with contents of a store lie beneath.
fn contents(prefix: &Path) -> Path {
    prefix.clone().join(CONTENTS)
}

/// A process that is to be killed, and the proxy between it and the server.
struct Process {
    proxy: Proxy,
    session: Session,
}

/// The requests up to that at which a process is to be killed, as soon as it is held.
fn wait_for(proxy: &Proxy, kill: Kill) -> Vec<Record> {
    let start = Instant::now();
    loop {
        let mut requests = proxy.records();
        if requests.get(kill.number - 1).is_some_and(|held| kill.moment.has_come(held)) {
            requests.truncate(kill.number);
            return requests;
        }
        assert!(start.elapsed() < PATIENCE, "{kill:?} does not come: {requests:#?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the server has put an object whose key has this part.
fn is_put(request: &Record, part: &str) -> bool {
    request.method == "PUT" && request.target.contains(part) && request.status.is_some_and(|status| status < 300)
}
