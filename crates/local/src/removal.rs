//! [`check`]: whether a file or directory can be removed completely.
//!
//! A directory is hidden in one step and then emptied. If an entry could not be removed, deleted texts would stay on
//! the disk. Therefore such a removal is refused before it begins.

#[cfg(unix)]
pub(crate) use unix::check;

/// On Windows, only an attempt shows what can be removed.
#[cfg(windows)]
pub(crate) fn check(_: &cap_std::fs::Dir, _: crate::name::Name<'_>) -> std::io::Result<()> {
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use cap_std::fs::Dir;
    use rustix::fs::{AtFlags, FileType, Mode, chmodat};
    use rustix::io::Errno;

    use crate::disk;
    use crate::name::Name;

    /// The maximum number of directories that a check keeps open. Others are opened again by their path.
    const MAX_OPEN_DIRECTORIES: usize = 64;

    const ROOT: u32 = 0;
    /// In a directory with this bit, only its owner and the owner of an entry can remove the entry.
    const STICKY: u32 = 0o1000;
    /// The rights of the owner to list a directory and to look its entries up.
    const OWNER_CAN_READ: u32 = 0o500;

    /// Checks that an entry of a directory can be removed with all its contents. Removing the entry itself also needs
    /// the right to write to the directory, which is not checked.
    ///
    /// # Errors
    /// `PermissionDenied` for the first entry that cannot be removed.
    pub(crate) fn check(directory: &Dir, name: Name<'_>) -> io::Result<()> {
        let user = rustix::process::geteuid().as_raw();
        let Some(found) = Facts::of(directory, name)? else { return Ok(()) };
        let path = PathBuf::from(name.as_os_str());
        refuse(found.obstacle(user, &Facts::of_directory(directory)?), &path)?;
        let mut pending = Vec::new();
        if found.is_directory {
            pending.push(Pending { parent: None, path, found });
        }
        while let Some(next) = pending.pop() {
            let keeps_open = pending.len() < MAX_OPEN_DIRECTORIES;
            pending.extend(next.check(user, directory, keeps_open)?);
        }
        Ok(())
    }

    /// A directory whose entries are not checked yet.
    struct Pending {
        /// The directory above it, if it is kept open.
        parent: Option<Arc<Dir>>,
        /// The path from the directory where the check began.
        path: PathBuf,
        found: Facts,
    }

    impl Pending {
        /// Checks the entries. Returns the subdirectories.
        fn check(self, user: u32, start: &Dir, keeps_open: bool) -> io::Result<Vec<Self>> {
            let (opened, _revocation) = match self.open(user, start) {
                // Another program removed or replaced it.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    return Ok(Vec::new());
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(refusal("this process cannot read it", &self.path));
                }
                opened => opened?,
            };
            let above = Facts::of_directory(&opened)?;
            let is_writable = above.obeys(user) || disk::check_writable(&opened).is_ok();
            let unwritable = (!is_writable).then_some("this process cannot write to its directory");
            let opened = Arc::new(opened);
            let mut subdirectories = Vec::new();
            for disk::DirectoryEntry { name: entry, .. } in disk::entries(&opened)? {
                let Some(found) = Facts::of(&opened, Name::parse(&entry)?)? else { continue };
                let path = self.path.join(entry);
                refuse(unwritable.or_else(|| found.obstacle(user, &above)), &path)?;
                if found.is_directory {
                    subdirectories.push(Self { parent: keeps_open.then(|| Arc::clone(&opened)), path, found });
                }
            }
            Ok(subdirectories)
        }

        /// Opens the directory. If this user owns it but has no right to read it, the right is granted until the second
        /// value is dropped.
        fn open(&self, user: u32, start: &Dir) -> io::Result<(Dir, Option<Revocation>)> {
            let name = Name::parse(self.path.file_name().unwrap_or_default())?;
            let reopened;
            let parent = match &self.parent {
                Some(parent) => parent,
                None => {
                    let mut names = self.path.parent().into_iter().flatten();
                    let parent = names
                        .try_fold(start.try_clone()?, |above, name| disk::open_directory(&above, Name::parse(name)?))?;
                    reopened = Arc::new(parent);
                    &reopened
                }
            };
            let is_revoked = self.found.mode & OWNER_CAN_READ != OWNER_CAN_READ;
            if !is_revoked || user == ROOT || self.found.owner != user {
                return Ok((disk::open_directory(parent, name)?, None));
            }
            disk::make_accessible(parent, name)?;
            let opened = disk::open_directory(parent, name)?;
            let revocation = Revocation { directory: opened.try_clone()?, mode: self.found.mode };
            Ok((opened, Some(revocation)))
        }
    }

    /// Restores the mode of a directory when it is dropped.
    struct Revocation {
        directory: Dir,
        mode: u32,
    }

    impl Drop for Revocation {
        fn drop(&mut self) {
            let _ = chmodat(&self.directory, ".", Mode::from_bits_truncate(self.mode as _), AtFlags::empty());
        }
    }

    /// The properties of an entry that decide whether it can be removed.
    struct Facts {
        is_directory: bool,
        owner: u32,
        mode: u32,
        is_immutable: bool,
        /// The mount, if the system returns it.
        mount: Option<u64>,
    }

    impl Facts {
        fn of_directory(directory: &Dir) -> io::Result<Self> {
            Ok(Self::look(directory, Path::new("."))?)
        }

        /// The facts about an entry; `None` if it does not exist.
        fn of(directory: &Dir, name: Name<'_>) -> io::Result<Option<Self>> {
            match Self::look(directory, name.as_ref()) {
                Err(Errno::NOENT) => Ok(None),
                found => Ok(Some(found?)),
            }
        }

        #[cfg(target_os = "linux")]
        fn look(directory: &Dir, name: &Path) -> Result<Self, Errno> {
            use rustix::fs::{StatxAttributes, StatxFlags, statx};
            let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::UID | StatxFlags::MNT_ID;
            let found = statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
            let has_mount = found.stx_mask & StatxFlags::MNT_ID.bits() != 0; // since Linux 5.8
            Ok(Self {
                is_directory: FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory,
                owner: found.stx_uid,
                mode: u32::from(found.stx_mode) & 0o7777,
                is_immutable: found.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
                mount: has_mount.then_some(found.stx_mnt_id),
            })
        }

        #[cfg(not(target_os = "linux"))]
        #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the types differ between systems")]
        fn look(directory: &Dir, name: &Path) -> Result<Self, Errno> {
            let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(Self {
                is_directory: FileType::from_raw_mode(found.st_mode) == FileType::Directory,
                owner: found.st_uid,
                mode: u32::from(found.st_mode) & 0o7777,
                is_immutable: false,
                mount: Some(found.st_dev as u64),
            })
        }

        /// Whether the user can change the mode.
        fn obeys(&self, user: u32) -> bool {
            user == ROOT || user == self.owner
        }

        /// Why the entry cannot be removed from its directory, apart from the right to write to it.
        fn obstacle(&self, user: u32, above: &Self) -> Option<&'static str> {
            match () {
                () if self.mount != above.mount => Some("it is a separate mount"),
                () if above.is_immutable => Some("its directory is immutable or append-only"),
                () if self.is_immutable => Some("it is immutable or append-only"),
                () if above.mode & STICKY != 0 && !above.obeys(user) && !self.obeys(user) => {
                    Some("it belongs to another user and is in a sticky directory")
                }
                () => None,
            }
        }
    }

    fn refuse(obstacle: Option<&str>, path: &Path) -> io::Result<()> {
        obstacle.map_or(Ok(()), |obstacle| Err(refusal(obstacle, path)))
    }

    fn refusal(obstacle: &str, path: &Path) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, format!("{path:?} cannot be removed: {obstacle}"))
    }
}
