//! A Unix socket at a path: made with its mode, in the place of one that a killed server left, and removed at the end.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The file of a socket that this process made. It is removed when this is dropped, unless another one is in its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Binds a socket at `path`. What stands there is replaced only if it is a socket that nobody listens on.
pub(super) async fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    vacant(path).await?;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    // Left by a server that was killed while it started.
    vacant(&fresh).await?;
    absent(fs::remove_file(&fresh))?;
    let listener = UnixListener::bind(&fresh)?;
    // It gets its name once its mode is right, and takes the place of the old one in one step.
    let named = fs::set_permissions(&fresh, Permissions::from_mode(mode))
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| fs::symlink_metadata(path));
    let file = named.inspect_err(|_| drop(fs::remove_file(&fresh)))?;
    let file = SocketFile {
        path: path.to_owned(),
        device: file.dev(),
        inode: file.ino(),
    };
    Ok((listener, file))
}

/// Whether a socket may take this place.
async fn vacant(path: &Path) -> io::Result<()> {
    let Some(file) = absent(fs::symlink_metadata(path))? else {
        return Ok(());
    };
    if !file.file_type().is_socket() {
        let what = "something that is no socket has this path; move it, or choose another path";
        return Err(io::Error::new(ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path).await {
        // Nobody listens: the server that made it was killed.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A server that has no time for another connection is there, too.
        Ok(_) => Err(in_use()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Err(error) => Err(error),
    }
}

fn in_use() -> io::Error {
    io::Error::new(ErrorKind::AddrInUse, "another server listens on it")
}

fn absent<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = |file: &fs::Metadata| (file.dev(), file.ino()) == (self.device, self.inode);
        if fs::symlink_metadata(&self.path).is_ok_and(|file| is_ours(&file)) {
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_has_its_mode_and_goes_with_its_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("e.sock");
        let (listener, file) = bind(&path, 0o640).await.expect("bound");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o640);
        let taken = bind(&path, 0o600).await.expect_err("it is taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        drop(listener);
        drop(file);
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0);
    }

    #[tokio::test]
    async fn a_socket_without_a_server_is_replaced_and_the_new_one_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("e.sock");
        let (listener, old) = bind(&path, 0o600).await.expect("bound");
        drop(listener);
        let (_listener, _file) = bind(&path, 0o600).await.expect("bound again");
        // The old server ends only now.
        drop(old);
        UnixStream::connect(&path).await.expect("it is served");
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("e.sock");
        fs::write(&path, "mine").expect("written");
        let refused = bind(&path, 0o600).await.expect_err("it is a file");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("it is there"), b"mine");
    }
}
