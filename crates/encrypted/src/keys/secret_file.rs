//! Files that hold a secret, and that nobody but their owner may reach.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

/// No secret is longer.
const MAX_BYTES: usize = 4096;

/// The content of a file that holds a secret.
pub(super) async fn read_secret(path: PathBuf) -> io::Result<Zeroizing<Vec<u8>>> {
    spawn_blocking(move || read(&path)).await?
}

fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    refuse_others(&file)?;
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 1)); // never grows, which would leave a copy behind
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content)?;
    if content.len() > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long to be a key or a passphrase"));
    }
    Ok(content)
}

/// Refuses a file that others than its owner may read or write. What is no file, such as a pipe, has nobody else at its end.
#[cfg(unix)]
fn refuse_others(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let metadata = file.metadata()?;
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & 0o077 != 0 {
        let message = format!("its mode is {mode:03o}, so others than its owner may use it: `chmod 600` it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Where there is no file mode, who may read the file is inherited from the directory above it.
#[cfg(not(unix))]
fn refuse_others(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_may_use_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(&path, "secret").unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666, 0o777] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
        for mode in [0o600, 0o400, 0o700] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(*read(&path).unwrap(), b"secret", "{mode:o}");
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(&path, vec![b'a'; MAX_BYTES + 1]).unwrap();
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
