//! `cargo xtask vectors`: an archive of the conformance vectors, which projects in other languages can pin. The same
//! vectors give the same bytes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};

use crate::{BoxError, root};

/// The directory in the archive, and the name of the archive.
const NAME: &str = concat!("memory-tool-vectors-", env!("CARGO_PKG_VERSION"));
/// The pages that the README of the vectors links to, with their names in the archive.
const PAGES: [(&str, &str); 2] =
    [("docs/contract.md", "contract.md"), ("crates/conformance/src/vectors.rs", "vectors.rs")];

/// Writes the archive to the target directory, and returns its path.
pub(crate) fn write() -> Result<PathBuf, BoxError> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    fs::create_dir_all(&target)?;
    let path = target.join(format!("{NAME}.tar.gz"));
    fs::write(&path, archive()?)?;
    Ok(path)
}

fn archive() -> Result<Vec<u8>, BoxError> {
    // Without a time or a name.
    let compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(compressed);
    for (name, content) in files()? {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len().try_into()?);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive.append_data(&mut header, Path::new(NAME).join(name), &*content)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

/// The files of the archive, by name.
fn files() -> Result<Vec<(String, Vec<u8>)>, BoxError> {
    let vectors = root().join("crates/conformance/vectors");
    let mut files = Vec::new();
    for entry in fs::read_dir(&vectors)? {
        let name = entry?.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let content = fs::read(vectors.join(&name))?;
        files.push((name, content));
    }
    for (page, name) in PAGES {
        files.push((name.to_owned(), fs::read(root().join(page))?));
    }
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        files.push((license.to_owned(), fs::read(root().join(license))?));
    }
    for (_, content) in files.iter_mut().filter(|(name, _)| name == "README.md") {
        *content = with_links_to_pages(content)?.into_bytes();
    }
    files.sort();
    Ok(files)
}

/// The README with links to the pages in the archive.
fn with_links_to_pages(readme: &[u8]) -> Result<String, io::Error> {
    let readme = std::str::from_utf8(readme).map_err(io::Error::other)?;
    Ok(readme.replace("](../../../docs/", "](").replace("](../src/", "]("))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn unpacked() -> BTreeMap<PathBuf, Vec<u8>> {
        let bytes = archive().unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&*bytes));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().strip_prefix(NAME).unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, content)
        });
        entries.collect()
    }

    #[test]
    fn the_archive_has_the_same_bytes_each_time() {
        assert_eq!(archive().unwrap(), archive().unwrap());
        let bytes = archive().unwrap();
        assert_eq!(bytes[4..8], [0; 4], "the time of gzip");
        let mut archive = tar::Archive::new(GzDecoder::new(&*bytes));
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let owner = (header.uid().unwrap(), header.gid().unwrap());
            assert_eq!((header.mtime().unwrap(), owner, header.mode().unwrap()), (0, (0, 0), 0o644));
        }
    }

    #[test]
    fn the_archive_has_the_schema_the_vectors_and_the_licenses() {
        let files = unpacked();
        let names: Vec<_> = files.keys().map(|path| path.to_str().unwrap()).collect();
        for name in ["schema.json", "faults.json", "view.json", "README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let vectors = root().join("crates/conformance/vectors");
        for (path, content) in files.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "json")) {
            assert_eq!(fs::read(vectors.join(path)).unwrap(), *content, "{}", path.display());
        }
    }

    #[test]
    fn links_of_the_readme_lead_to_files_of_the_archive() {
        let files = unpacked();
        let readme = String::from_utf8(files[Path::new("README.md")].clone()).unwrap();
        let links: Vec<_> = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(links.contains(&"contract.md"), "{links:?}");
        for link in links.into_iter().filter(|link| !link.starts_with('#')) {
            assert!(files.contains_key(Path::new(link)), "{link}");
        }
    }
}
