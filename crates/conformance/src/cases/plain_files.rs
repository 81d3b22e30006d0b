//! Memories of plain files, shared with other programs: links and special files cannot redirect a command, and other
//! programs can read and write the files.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cases::plain_memory::{
    Item, PlainMemory, SECRET, Swapper, Tree, every_command_on, expect_tree, system, tree_of,
};
use crate::cases::threads::Threads;
use crate::disk::on_disk;
use crate::failure::{CaseError, Failure, check, expect_bytes, expect_json, expect_none_of};
use crate::session::{create, delete, insert, rename, str_replace, view};
use crate::target::Target;
use crate::time_limit::within;

cases! {
    |target| &PlainMemory::of(&target).await?;
    link_to_a_file_outside, link_wording, link_to_a_directory_outside, dangling_links, link_loop, links_within,
    links_are_not_listed, delete_spares_targets, rename_spares_targets, directory_of_links_alone, swapped_parent,
    root_becomes_a_link, sockets_and_devices, delete_takes_special_files, hard_links, non_utf_8_names,
    invalid_names, empty_directories, removed_root, modes_of_what_is_made, modes_of_what_is_edited, nothing_else,
    bytes_on_disk, changes_of_others;
    pipes = |target| pipes(&target);
}

async fn link_to_a_file_outside(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.link("/memories/link.txt", memory.outside("secret.txt")).await?;
    memory.link("/memories/d/link.txt", memory.outside("secret.txt")).await?;
    memory.expect_refused("link.txt d/link.txt").await
}

async fn link_wording(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/existing.txt", "text").await?;
    memory.link("/memories/link", memory.outside("directory")).await?;
    for path in ["/memories/link", "/memories/link/secret.txt", "/memories/link/new.txt"] {
        for command in every_command_on(path) {
            let error = format!("Error: Path {path} would escape /memories directory via a symbolic link");
            memory.send(command).await?.error(&error)?;
        }
    }
    Ok(())
}

async fn link_to_a_directory_outside(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.link("/memories/link", memory.outside("")).await?;
    memory.link("/memories/real/deep/link", memory.outside("directory")).await?;
    let paths = "link link/secret.txt link/directory link/directory/secret.txt link/new.txt \
                 link/new/directory/file.txt real/deep/link real/deep/link/secret.txt real/deep/link/new.txt";
    memory.expect_refused(paths).await
}

async fn dangling_links(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.link("/memories/file.txt", memory.outside("new.txt")).await?;
    memory.link("/memories/directory", memory.outside("new")).await?;
    memory.link("/memories/relative", "nowhere").await?;
    let paths = "file.txt directory directory/new.txt directory/deeper/new.txt relative relative/new.txt";
    memory.expect_refused(paths).await
}

async fn link_loop(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.link("/memories/itself", "itself").await?;
    memory.link("/memories/d/up", "..").await?;
    memory.expect_refused("itself itself/a.txt d/up d/up/d/up/existing.txt").await?;
    memory.expect_listed("/memories", &["/memories", "/memories/existing.txt"]).await
}

async fn links_within(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/real/a.txt", "a word for you").await?;
    memory.link("/memories/inside", "real").await?;
    memory.link("/memories/inside.txt", "real/a.txt").await?;
    memory.link("/memories/absolute", memory.file("/memories/real")).await?;
    memory.expect_refused("inside inside/a.txt inside/new.txt inside.txt absolute/a.txt").await
}

async fn links_are_not_listed(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    let before = memory.client.view("/memories").await?.result;
    memory.link("/memories/d/link.txt", memory.outside("secret.txt")).await?;
    memory.link("/memories/d/link", memory.outside("directory")).await?;
    memory.link("/memories/d/dangling", "nowhere").await?;
    memory.link("/memories/inside.txt", "d/a.txt").await?;
    memory.link("/memories/inside", "d").await?;
    memory.expect_listed("/memories", &["/memories", "/memories/d/", "/memories/d/a.txt"]).await?;
    memory.expect_listed("/memories/d", &["/memories/d", "/memories/d/a.txt"]).await?;
    let after = memory.client.view("/memories").await?;
    after.judge(expect_json(&before, &after.result)) // including the sizes
}

async fn delete_spares_targets(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/kept/a.txt", "a").await?;
    let expected = memory.trees().await?;
    memory.client.must_create("/memories/d/e/b.txt", "b").await?;
    memory.link("/memories/d/link.txt", memory.outside("secret.txt")).await?;
    memory.link("/memories/d/e/link", memory.outside("directory")).await?;
    memory.link("/memories/d/inside", "../kept").await?;
    memory.link("/memories/d/dangling", "nowhere").await?;
    memory.client.delete("/memories/d").await?.text(false)?;
    memory.expect_trees(&expected).await
}

async fn rename_spares_targets(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    memory.link("/memories/d/link.txt", memory.outside("secret.txt")).await?;
    memory.link("/memories/d/link", memory.outside("directory")).await?;
    let (_, outside) = memory.trees().await?;
    memory.client.rename("/memories/d", "/memories/e").await?.text(false)?;
    let (memories, outside_after) = memory.trees().await?;
    expect_tree(&outside, &outside_after)?;
    let copied = memories.iter().find(|(_, item)| **item == Item::File(SECRET.into()));
    check(copied.is_none(), || format!("a file from outside the memory was copied into it: {copied:?}"))?;
    memory.expect_listed("/memories", &["/memories", "/memories/e/", "/memories/e/a.txt"]).await
}

async fn directory_of_links_alone(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.link("/memories/d/link", memory.outside("directory")).await?;
    memory.link("/memories/d/e/link.txt", memory.outside("secret.txt")).await?;
    let before = memory.trees().await?;
    memory.expect_listed("/memories", &["/memories"]).await?;
    memory.expect_nothing("/memories/d").await?;
    memory.expect_nothing("/memories/d/e").await?;
    // The links belong to another program, so no file may replace the directory.
    memory.client.create("/memories/d", "text").await?.text(true)?;
    memory.expect_trees(&before).await?;
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    memory.client.expect_text("/memories/d/a.txt", "a").await
}

/// Another program swaps a directory for a link to the outside and back while commands use it. Each command may succeed
/// or fail.
async fn swapped_parent(memory: &PlainMemory) -> Result<(), CaseError> {
    const ROUNDS: usize = 150;
    const LIMIT: Duration = Duration::from_secs(5);
    memory.client.must_create("/memories/d/secret.txt", "inside").await?;
    memory.link("/memories/link", memory.outside("")).await?;
    let (_, outside) = memory.trees().await?;
    let swapper = Swapper::start(memory.file("/memories/d"), memory.file("/memories/link"));
    let start = Instant::now();
    for round in 0..ROUNDS {
        let new = format!("/memories/d/{round}.txt");
        let nested = "/memories/d/directory/secret.txt";
        for command in [
            view("/memories/d/secret.txt"),
            insert("/memories/d/secret.txt", 0, "line"),
            create(&new, "text"),
            delete(&new),
            rename("/memories/d/secret.txt", "/memories/d/moved.txt"),
            rename("/memories/d/moved.txt", "/memories/d/secret.txt"),
            create(nested, "inside"),
            str_replace(nested, "for", "FOR"),
            delete("/memories/d/directory"),
        ] {
            memory.send(command).await?;
        }
        let directory = memory.outside.path().to_owned();
        let found = on_disk("read the files outside", move || tree_of(&directory)).await?;
        expect_tree(&outside, &found).map_err(|stop| stop.in_step("checking the files outside the memory"))?;
        if start.elapsed() > LIMIT {
            break;
        }
    }
    swapper.stop().await
}

async fn root_becomes_a_link(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/existing.txt", "text").await?;
    let (memories, aside, target) = (memory.memories.clone(), memory.outside("aside"), memory.outside("directory"));
    on_disk("replace the memory with a link", move || {
        fs::rename(&memories, aside)?;
        system::link(&target, &memories)
    })
    .await?;
    let directory = memory.outside("directory");
    for path in ["/memories/secret.txt", "/memories/new.txt", "/memories/new/file.txt"] {
        for command in every_command_on(path) {
            memory.send(command).await?;
        }
    }
    let listing = memory.send(view("/memories")).await?;
    listing.judge(expect_none_of(&["secret.txt".to_owned()], &listing.result.to_string()))?;
    let found = on_disk("read the files outside", move || tree_of(&directory)).await?;
    expect_tree(&Tree::from([("secret.txt".into(), Item::File(SECRET.into()))]), &found)?;
    let (memories, aside) = (memory.memories.clone(), memory.outside("aside"));
    on_disk("restore the memory", move || {
        fs::remove_file(&memories)?;
        fs::rename(aside, memories)
    })
    .await?;
    memory.client.must_create("/memories/afterwards.txt", "text").await?;
    memory.client.expect_text("/memories/afterwards.txt", "text").await
}

async fn pipes(target: &Target) -> Result<(), CaseError> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let memory = Arc::new(PlainMemory::of(target).await?);
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    memory.make_pipe("/memories/d/pipe.txt").await?;
    let mut threads = Threads::new();
    threads.spawn({
        let memory = Arc::clone(&memory);
        async move {
            memory.expect_refused("d/pipe.txt d/pipe.txt/child.txt").await?;
            memory.expect_listed("/memories/d", &["/memories/d", "/memories/d/a.txt"]).await
        }
    });
    match within(PATIENCE, threads.join()).await {
        Some(outcome) => outcome.map(drop),
        None => {
            let pipe = memory.file("/memories/d/pipe.txt");
            on_disk("release the pipe", move || release(&pipe)).await?;
            Err(Failure::new("a command on a pipe does not end: it waits for the other end to be opened").into())
        }
    }
}

/// Unblocks threads that wait for the other end of the pipe.
fn release(pipe: &Path) -> io::Result<()> {
    for _ in 0..50 {
        drop(fs::OpenOptions::new().read(true).write(true).open(pipe));
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

async fn sockets_and_devices(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    let socket = memory.file("/memories/d/socket.txt");
    let _socket = on_disk("make a socket", move || system::listen(&socket)).await?;
    let mut paths = "d/socket.txt";
    let device = memory.file("/memories/d/device.txt");
    // The null device. Creating one usually takes root.
    if on_disk("make a device", move || system::run("mknod", &device, &["c", "1", "3"])).await? {
        paths = "d/socket.txt d/device.txt";
    }
    memory.expect_refused(paths).await?;
    memory.expect_listed("/memories/d", &["/memories/d", "/memories/d/a.txt"]).await
}

async fn delete_takes_special_files(memory: &PlainMemory) -> Result<(), CaseError> {
    let expected = memory.trees().await?;
    memory.client.must_create("/memories/d/e/a.txt", "a").await?;
    memory.make_pipe("/memories/d/pipe.txt").await?;
    let socket = memory.file("/memories/d/e/socket.txt");
    let _socket = on_disk("make a socket", move || system::listen(&socket)).await?;
    memory.client.delete("/memories/d").await?.text(false)?;
    memory.expect_trees(&expected).await
}

async fn hard_links(memory: &PlainMemory) -> Result<(), CaseError> {
    for path in ["/memories/inserted.txt", "/memories/replaced.txt"] {
        let (original, link) = (memory.outside("original.txt"), memory.file(path));
        on_disk("give a file a second name", move || {
            fs::write(&original, "original\n")?;
            fs::hard_link(original, link)
        })
        .await?;
    }
    let (_, outside) = memory.trees().await?;
    memory.client.insert("/memories/inserted.txt", 0, "new").await?.text(false)?;
    memory.client.str_replace("/memories/replaced.txt", "original", "changed").await?.text(false)?;
    memory.client.expect_text("/memories/inserted.txt", "new\noriginal\n").await?;
    memory.client.expect_text("/memories/replaced.txt", "changed\n").await?;
    expect_tree(&outside, &memory.trees().await?.1)
}

async fn non_utf_8_names(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    let directory = memory.file("/memories/d");
    let are_made = on_disk("make a file whose name is not UTF-8", move || {
        let file = directory.join(system::name(b"not \xff UTF-8.txt")?);
        let nested = directory.join(system::name(b"nor \xc3\x28 this")?);
        let made = fs::write(file, "foreign").and_then(|()| fs::create_dir(&nested));
        Ok(made.and_then(|()| fs::write(nested.join("a.txt"), "foreign")).is_ok())
    });
    if !are_made.await? {
        return Ok(()); // this file system does not support such names
    }
    expect_counted(memory, 2).await
}

async fn invalid_names(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/d/a.txt", "a").await?;
    let directory = memory.file("/memories/d");
    on_disk("make files of any name", move || {
        let names = [
            "line\n9.9G\tforged.txt",
            "tab\there.txt",
            "escape\x1b[2J.txt",
            "reversed\u{202e}txt.exe",
            "zero\u{200b}width.txt",
            "back\\slash.txt",
            "%2e%2e",
        ];
        for name in names {
            fs::write(directory.join(system::name(name.as_bytes())?), "foreign")?;
        }
        Ok(())
    })
    .await?;
    expect_counted(memory, 7).await
}

/// Checks that only `/memories/d/a.txt` is visible, and that the other items are counted, cause no failures and are not
/// lost.
async fn expect_counted(memory: &PlainMemory, items: usize) -> Result<(), CaseError> {
    let (before, _) = memory.trees().await?;
    memory.expect_listed_beside("/memories", &["/memories", "/memories/d/", "/memories/d/a.txt"], items).await?;
    memory.expect_listed_beside("/memories/d", &["/memories/d", "/memories/d/a.txt"], items).await?;
    memory.client.must_create("/memories/d/b.txt", "b").await?;
    memory.client.delete("/memories/d/b.txt").await?.text(false)?;
    memory.client.rename("/memories/d", "/memories/e").await?.text(false)?;
    memory.client.delete("/memories/e/a.txt").await?.text(false)?;
    memory.expect_listed_beside("/memories", &["/memories"], items).await?;
    let (after, _) = memory.trees().await?;
    let foreign = |tree: Tree| tree.into_values().filter(|item| *item == Item::File(b"foreign".into())).count();
    let (before, after) = (foreign(before), foreign(after));
    check(before == after, || format!("of {before} files that no command named, {after} remain"))
}

async fn empty_directories(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.make_directory("/memories/empty/deeper").await?;
    memory.make_directory("/memories/target").await?;
    memory.expect_listed("/memories", &["/memories"]).await?;
    memory.expect_nothing("/memories/empty").await?;
    memory.expect_nothing("/memories/empty/deeper").await?;
    memory.client.must_create("/memories/empty", "now a file").await?;
    memory.client.rename("/memories/empty", "/memories/target").await?.text(false)?;
    memory.client.expect_text("/memories/target", "now a file").await
}

async fn removed_root(memory: &PlainMemory) -> Result<(), CaseError> {
    for path in ["/memories/a.txt", "/memories/d/b.txt"] {
        memory.client.must_create("/memories/before.txt", "before").await?;
        let memories = memory.memories.clone();
        on_disk("remove the memory", move || fs::remove_dir_all(memories)).await?;
        memory.expect_listed("/memories", &["/memories"]).await?;
        memory.expect_nothing("/memories/before.txt").await?;
        memory.client.must_create(path, "after").await?;
        expect_bytes(b"after", &memory.read(path).await?)?;
    }
    Ok(())
}

async fn modes_of_what_is_made(memory: &PlainMemory) -> Result<(), CaseError> {
    memory.client.must_create("/memories/a/b/c.txt", "text").await?;
    memory.client.must_create("/memories/d.txt", "text").await?;
    memory.client.insert("/memories/d.txt", 0, "line").await?.text(false)?;
    memory.client.str_replace("/memories/d.txt", "line", "other").await?.text(false)?;
    memory.client.must_create("/memories/e.txt", "text").await?;
    memory.client.rename("/memories/e.txt", "/memories/f/g/h.txt").await?.text(false)?;
    let (memories, _) = memory.trees().await?;
    for (path, item) in memories {
        let path = path.to_string_lossy().into_owned();
        let (mode, expected) = (memory.mode(&path).await?, if item == Item::Directory { 0o700 } else { 0o600 });
        check(mode == expected, || format!("expected {path} to have mode {expected:03o}, got {mode:03o}"))?;
    }
    Ok(())
}

async fn modes_of_what_is_edited(memory: &PlainMemory) -> Result<(), CaseError> {
    for before in [0o666, 0o640, 0o600, 0o644] {
        let path = format!("/memories/{before:o}.txt");
        memory.write(&path, "text\n").await?;
        let file = memory.file(&path);
        on_disk("set the mode of a file", move || system::set_mode(&file, before)).await?;
        memory.client.insert(&path, 0, "line").await?.text(false)?;
        memory.client.str_replace(&path, "line", "other").await?.text(false)?;
        memory.client.expect_text(&path, "other\ntext\n").await?;
        let after = memory.mode(&path).await?;
        let widened = after & 0o077 & !before;
        check(widened == 0, || format!("a file with mode {before:03o} has mode {after:03o} after an edit"))?;
    }
    Ok(())
}

async fn nothing_else(memory: &PlainMemory) -> Result<(), CaseError> {
    // Each command with all files that exist after it.
    let commands: [(Value, &[(&str, &str)]); 14] = [
        (create("/memories/a/b/c.txt", "text\n"), &[("a/b/c.txt", "text\n")]),
        (create("/memories/a/b/c.txt", "text\n"), &[("a/b/c.txt", "text\n")]),
        (create("/memories/a/b/c.txt/d/e.txt", "text\n"), &[("a/b/c.txt", "text\n")]),
        (str_replace("/memories/a/b/c.txt", "text", "one"), &[("a/b/c.txt", "one\n")]),
        (str_replace("/memories/a/b/c.txt", "text", "one"), &[("a/b/c.txt", "one\n")]),
        (insert("/memories/a/b/c.txt", 1, "two"), &[("a/b/c.txt", "one\ntwo\n")]),
        (view("/memories/a/b/c.txt"), &[("a/b/c.txt", "one\ntwo\n")]),
        (rename("/memories/none", "/memories/p/q/r.txt"), &[("a/b/c.txt", "one\ntwo\n")]),
        (rename("/memories/a/b/c.txt", "/memories/d/e/f.txt"), &[("d/e/f.txt", "one\ntwo\n")]),
        (create("/memories/d/g.txt", "text\n"), &[("d/e/f.txt", "one\ntwo\n"), ("d/g.txt", "text\n")]),
        (rename("/memories/d", "/memories/h/i"), &[("h/i/e/f.txt", "one\ntwo\n"), ("h/i/g.txt", "text\n")]),
        (delete("/memories/h/i/e/f.txt"), &[("h/i/g.txt", "text\n")]),
        (delete("/memories/none"), &[("h/i/g.txt", "text\n")]),
        (delete("/memories/h/i"), &[]),
    ];
    for (command, files) in commands {
        let step = format!("after {command}");
        memory.client.send(command).await?;
        let (found, _) = memory.trees().await?;
        expect_tree(&tree_with(files), &found).map_err(|stop| stop.in_step(step))?;
    }
    Ok(())
}

/// The files with the directories above them.
fn tree_with(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::new();
    for (path, text) in files {
        let directories = Path::new(path).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        tree.extend(directories.map(|directory| (directory.to_owned(), Item::Directory)));
        tree.insert(path.into(), Item::File((*text).into()));
    }
    tree
}

async fn bytes_on_disk(memory: &PlainMemory) -> Result<(), CaseError> {
    for (name, text) in [
        ("empty.txt", ""),
        ("no-final-newline", "one\ntwo"),
        ("d/final-newlines.md", "one\n\n\n"),
        ("d/e/separators.txt", "one\r\ntwo\rthree\u{2028}four\u{85}five\x0csix"),
        (".hidden", "\u{feff}after a byte order mark"),
        ("blank in a name.txt", "tab\tand blanks at the end  "),
        ("[...é].100%", "été 😀 e\u{301}"),
    ] {
        let path = format!("/memories/{name}");
        memory.client.must_create(&path, text).await?;
        expect_bytes(text.as_bytes(), &memory.read(&path).await?).map_err(|failure| failure.in_step(path))?;
    }
    Ok(())
}

async fn changes_of_others(memory: &PlainMemory) -> Result<(), CaseError> {
    let path = "/memories/notes.txt";
    memory.client.must_create(path, "one\n").await?;
    memory.client.expect_text(path, "one\n").await?;
    memory.write(path, "two\n").await?; // of the same size, with the same timestamp
    memory.client.expect_text(path, "two\n").await?;
    memory.write(path, "new\n").await?;
    memory.client.insert(path, 0, "line").await?.text(false)?;
    expect_bytes(b"line\nnew\n", &memory.read(path).await?)?;
    memory.write(path, "line\nold\n").await?;
    memory.client.str_replace(path, "line", "more").await?.text(false)?;
    expect_bytes(b"more\nold\n", &memory.read(path).await?)?;
    memory.write("/memories/theirs/list.txt", "item").await?;
    memory.client.expect_text("/memories/theirs/list.txt", "item").await?;
    let items = ["/memories", "/memories/notes.txt", "/memories/theirs/", "/memories/theirs/list.txt"];
    memory.expect_listed("/memories", &items).await?;
    let file = memory.file(path);
    on_disk("remove a file", move || fs::remove_file(file)).await?;
    memory.expect_nothing(path).await
}
