//! Sound, damaged and mixed buckets in `tests/stores`, and beside each what a check and a repair report.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::TryStreamExt as _;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{StoreExt as _, StorePath};
use memory_tool_test_fixtures::archives::{are_updated, expect_report, folder};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};

use crate::support::{PREFIX, TestBucket, commit, write};

const DAMAGES: [Damage; 6] =
    [Damage::None, Damage::LostCommit, Damage::CutCommit, Damage::LostContents, Damage::LostStart, Damage::OtherBirth];

#[derive(Clone, Copy)]
enum Damage {
    None,
    LostCommit,
    CutCommit,
    LostContents,
    LostStart,
    /// A commit is of another store, which was at the same prefix before.
    OtherBirth,
}

impl Damage {
    fn archive(self) -> PathBuf {
        let name = match self {
            Self::None => "sound",
            Self::LostCommit => "lost-commit",
            Self::CutCommit => "cut-commit",
            Self::LostContents => "lost-contents",
            Self::LostStart => "lost-start",
            Self::OtherBirth => "of-two-births",
        };
        folder().join(format!("bucket-{name}.tar.gz"))
    }

    async fn of(self, bucket: &InMemory) {
        match self {
            Self::None => {}
            Self::LostCommit => bucket.delete(&commit(4)).await.unwrap(),
            Self::CutCommit => {
                let whole = bucket.get(&commit(4)).await.unwrap().bytes().await.unwrap();
                bucket.put(&commit(4), whole.slice(..whole.len() / 2).into()).await.unwrap();
            }
            Self::LostContents => {
                let contents = Path::from(format!("{PREFIX}/contents"));
                for object in bucket.list(Some(&contents)).try_collect::<Vec<_>>().await.unwrap() {
                    bucket.delete(&object.location).await.unwrap();
                }
            }
            Self::LostStart => {
                for number in 1..=2 {
                    bucket.delete(&commit(number)).await.unwrap();
                }
            }
            Self::OtherBirth => {
                let other = filled().await;
                let foreign = other.get(&commit(4)).await.unwrap().bytes().await.unwrap();
                bucket.put(&commit(4), foreign.into()).await.unwrap();
            }
        }
    }
}

async fn filled() -> Arc<InMemory> {
    let (bucket, store) = TestBucket::opened().await;
    for number in 0..5 {
        write(&store, &format!("/memories/{number}.md"), &format!("text of {number}")).await.unwrap();
    }
    write(&store, "/memories/large.md", &"line\n".repeat(5_000)).await.unwrap();
    bucket.objects.clone()
}

async fn pack(bucket: &InMemory, archive: &FilePath) {
    let mut packed = tar::Builder::new(GzEncoder::new(File::create(archive).unwrap(), Compression::best()));
    let mut objects: Vec<_> = bucket.list(None).try_collect().await.unwrap();
    objects.sort_by(|one, other| one.location.cmp(&other.location));
    for object in objects {
        let content = bucket.get(&object.location).await.unwrap().bytes().await.unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        packed.append_data(&mut header, object.location.as_ref(), &*content).unwrap();
    }
    packed.into_inner().unwrap().finish().unwrap();
}

async fn unpack(archive: &FilePath) -> Arc<InMemory> {
    let bucket = Arc::new(InMemory::new());
    for entry in tar::Archive::new(GzDecoder::new(File::open(archive).unwrap())).entries().unwrap() {
        let (mut entry, mut content) = (entry.unwrap(), Vec::new());
        entry.read_to_end(&mut content).unwrap();
        let path = Path::from(entry.path().unwrap().to_str().unwrap());
        bucket.put(&path, content.into()).await.unwrap();
    }
    bucket
}

/// The problems, and the sizes of the files that can be read.
async fn check(bucket: &Arc<InMemory>) -> String {
    let store = match BucketStore::open(bucket.clone(), PREFIX.into()).await {
        Ok(store) => store,
        Err(error) => return format!("cannot be opened: {error}\n"),
    };
    let problems = store.verify(|_| {}).await.unwrap().problems;
    let mut report: String = problems.iter().map(|problem| format!("problem: {}\n", problem.message)).collect();
    for file in store.list(&StorePath::memories()).await.unwrap() {
        let content = store.read(&file.path).await.map(|node| node.into_file().map_or(0, |file| file.content.len()));
        report += &match content {
            Ok(size) => format!("{}: {size} bytes\n", file.path),
            Err(error) => format!("{}: {}\n", file.path, error),
        };
    }
    report
}

#[tokio::test(start_paused = true)]
async fn damaged_buckets_are_reported_and_repaired() {
    for damage in DAMAGES {
        let archive = damage.archive();
        if are_updated() && !archive.exists() {
            let bucket = filled().await;
            damage.of(&bucket).await;
            pack(&bucket, &archive).await;
        }
        let bucket = unpack(&archive).await;
        let mut report = check(&bucket).await;
        let repair = BucketStore::builder(bucket.clone(), PREFIX.into()).repair().await.unwrap();
        report += &format!(
            "-- repair: {} files, {}\n",
            repair.files,
            if repair.is_changed { "changed" } else { "as before" }
        );
        report.extend(repair.lost.iter().map(|lost| format!("lost: {}\n", lost.message)));
        report += &check(&bucket).await;
        expect_report(&archive, &report);
    }
}
