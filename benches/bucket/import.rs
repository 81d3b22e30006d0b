//! An import of many files, as by `memory-tool import`.

use std::fs;
use std::time::Instant;

use memory_tool::Memory;
use memory_tool::transfer::Import;
use memory_tool_core::OpenOptions;

use crate::report::{print_table, time};
use crate::site::Site;
use crate::texts::text;
use crate::usage::Usage;

const SIZE: usize = 1024;
const FILES_PER_DIRECTORY: usize = 100;

pub(crate) async fn print(site: &Site, files: usize) {
    let source = tempfile::tempdir().unwrap();
    for number in 0..files {
        let directory = source.path().join(format!("{:03}", number / FILES_PER_DIRECTORY));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{number:05}.md")), text(number, SIZE)).unwrap();
    }
    let store = site.open("import", OpenOptions::new()).await;
    let memory = Memory::over(store).build().await.unwrap();
    site.take_all().await;
    let start = Instant::now();
    let report = memory.import(Import::from_path(source.path()), |_| {}).await.unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(report.written.copied, files as u64);
    let row = [vec![files.to_string(), time(seconds)], site.usage(1).await.cells()].concat();
    print_table(&format!("imported files of 1 KB | time | {}", Usage::COLUMNS), [row]);
}
