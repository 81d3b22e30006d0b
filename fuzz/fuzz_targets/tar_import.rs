//! Whatever is imported as an archive, compressed or not, is read without a panic, and within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// What the parser of archives takes from the program around it.
mod failure {
    #[allow(dead_code, reason = "nobody reads what went wrong")]
    pub(crate) enum Failure {
        File { path: std::path::PathBuf, source: std::io::Error },
        SourceFormat { path: std::path::PathBuf, format: &'static str },
    }

    pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
        error.to_string()
    }
}

/// Where the parser brings files, which are dropped here.
#[path = "."] // the path in it begins here
mod import {
    use std::io::{self, Cursor, Read};
    use std::marker::PhantomData;
    use std::path::Path;

    use memory_tool_core::MemoryPath;

    use crate::failure::Failure;

    #[path = "../../crates/cli/src/import/archive.rs"]
    pub(crate) mod archive;

    pub(crate) fn take(bytes: Vec<u8>, skip_above: u64) {
        let Ok(archive) = archive::Archive::open(Cursor::new(bytes), Path::new("archive")) else { return };
        let _ = archive::take_files(archive, &mut Intake { skip_above, memory: PhantomData });
    }

    pub(crate) struct Intake<'a> {
        skip_above: u64,
        memory: PhantomData<&'a ()>,
    }

    impl Intake<'_> {
        fn skip_above(&self) -> u64 {
            self.skip_above
        }

        fn place(&mut self, name: &[u8], size: u64) -> Option<MemoryPath> {
            let name = std::str::from_utf8(name).ok()?;
            (size <= self.skip_above).then(|| MemoryPath::parse(&format!("/memories/{name}")).ok()).flatten()
        }

        fn put(&mut self, _: &MemoryPath, content: &[u8]) -> Result<(), Failure> {
            assert!(content.len() as u64 <= self.skip_above);
            Ok(())
        }

        fn leave_out(&mut self, _: &[u8], _: &str) {}
    }

    fn read_up_to(limit: u64, content: impl Read) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        content.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
    }
}

fuzz_target!(|archive: &[u8]| import::take(archive.to_vec(), 1_000));
