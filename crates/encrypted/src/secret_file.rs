//! Reading files that hold a secret and are accessible to their owner only.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memory_tool_core::refuse_others;
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

const MAX_BYTES: usize = 4096;

/// Reads a file that holds a secret.
pub(crate) async fn read_secret(path: PathBuf) -> io::Result<Zeroizing<Vec<u8>>> {
    spawn_blocking(move || read(&path)).await?
}

fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    // A pipe, such as `<(command)` of a shell, has the mode that the shell gave it.
    if metadata.is_file() {
        refuse_others(&metadata)?;
    }
    // The capacity prevents growth, which would leave a copy of the secret in freed memory.
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 1));
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content)?;
    if content.len() > MAX_BYTES {
        let message = format!("too long for a key or a passphrase: the limit is {MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_other_users_can_access_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(&path, "secret").unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666, 0o777] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
        // The file has the group of this process.
        for mode in [0o600, 0o400, 0o700, 0o440] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(*read(&path).unwrap(), b"secret", "{mode:o}");
        }
        set_permissions(&path, Permissions::from_mode(0o440)).unwrap();
        if std::os::unix::fs::chown(&path, None, Some(12_345)).is_ok() {
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
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
