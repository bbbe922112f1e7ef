//! A revision as a folder of its own, outside the user's checkout.
//!
//! The files are written through an index of their own. Neither the checkout, its index nor the list of worktrees changes,
//! and a folder that is there is whole: it gets its name only once every file is in it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit that name its folder.
const DIGITS: usize = 12;

/// A commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    sha: String,
}

impl Commit {
    /// The commit that a revision names.
    ///
    /// # Errors
    /// When it names none.
    pub fn of(root: &Path, revision: &str) -> io::Result<Self> {
        let wanted = format!("{revision}^{{commit}}");
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &wanted,
        ];
        let output = git(root, arguments).output().map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("git cannot be run ({error}); it is needed to check out a revision"),
            )
        })?;
        let sha = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && sha.len() >= DIGITS {
            return Ok(Self { sha });
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "`{revision}` names no commit of {}; `git log --oneline` lists those that are here, and `git fetch` gets others",
                root.display()
            ),
        ))
    }

    /// As long as it takes to tell it from others.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.sha[..DIGITS]
    }

    /// The folder of its files below `folder`; writes them unless they are there.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn check_out(&self, root: &Path, folder: &Path) -> io::Result<PathBuf> {
        let tree = folder.join(self.short());
        if tree.is_dir() {
            return Ok(tree);
        }
        let (partial, index) = (
            folder.join(format!("{}.partial", self.short())),
            folder.join(format!("{}.index", self.short())),
        );
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial)?;
        let mut prefix = OsStr::new("--prefix=").to_owned();
        prefix.push(&partial);
        prefix.push("/");
        let read = [OsStr::new("read-tree"), OsStr::new(&self.sha)];
        let write = [
            OsStr::new("checkout-index"),
            OsStr::new("--all"),
            OsStr::new("--quiet"),
            &prefix,
        ];
        for arguments in [&read[..], &write[..]] {
            let output = git(root, arguments)
                .env("GIT_INDEX_FILE", &index)
                .output()?;
            if !output.status.success() {
                return Err(io::Error::other(format!(
                    "{} could not be checked out to {}: {}",
                    self.short(),
                    partial.display(),
                    String::from_utf8_lossy(&output.stderr).trim()
                )));
            }
        }
        fs::remove_file(&index)?;
        fs::rename(&partial, &tree)?;
        Ok(tree)
    }
}

/// Whether files that git knows were changed since the commit that is checked out.
///
/// # Errors
/// When git cannot be run.
pub fn is_changed(root: &Path) -> io::Result<bool> {
    let output = git(root, ["status", "--porcelain", "--untracked-files=no"]).output()?;
    Ok(!output.stdout.is_empty())
}

fn git(root: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(root);
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with two commits: `file` says `one` in the first and `two` in the second, which has `run`, too.
    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let said = |arguments: &[&str]| {
            let output = git(root.path(), arguments)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .output()
                .expect("git runs");
            assert!(output.status.success(), "{output:?}");
        };
        let write = |name: &str, text: &str| {
            fs::write(root.path().join(name), text).expect("room for a file");
        };
        let commit = |message: &str| {
            said(&["add", "--all"]);
            let user = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
            said(&[&user[..], &["commit", "--quiet", "-m", message]].concat());
        };
        said(&["init", "--quiet"]);
        write("file", "one");
        commit("one");
        write("file", "two");
        write("run", "#!/bin/sh\n");
        commit("two");
        root
    }

    #[test]
    fn a_revision_is_checked_out_beside_a_changed_checkout() {
        let repository = repository();
        let root = repository.path();
        assert!(!is_changed(root).expect("git runs"));
        fs::write(root.join("file"), "three").expect("room for a file");
        assert!(is_changed(root).expect("git runs"));

        let folder = root.join("target/against");
        let commit = Commit::of(root, "HEAD~1").expect("the first commit");
        let tree = commit.check_out(root, &folder).expect("a tree");
        let text = |path: PathBuf| fs::read_to_string(path).expect("a text");
        assert_eq!(text(tree.join("file")), "one");
        assert!(!tree.join("run").exists());
        // The checkout is as it was, and nothing but the tree is left.
        assert_eq!(text(root.join("file")), "three");
        let status = git(root, ["status", "--porcelain", "--untracked-files=no"]).output();
        let status = String::from_utf8(status.expect("git runs").stdout);
        assert_eq!(status.expect("text"), " M file\n");
        let left = fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(left, 1);
    }

    #[test]
    fn a_tree_that_is_there_is_used_again_and_half_a_tree_is_not() {
        let repository = repository();
        let (root, folder) = (repository.path(), repository.path().join("against"));
        let commit = Commit::of(root, "HEAD").expect("a commit");
        let partial = folder.join(format!("{}.partial", commit.short()));
        fs::create_dir_all(&partial).expect("a folder");
        fs::write(partial.join("half"), "").expect("room for a file");
        let tree = commit.check_out(root, &folder).expect("a tree");
        assert!(tree.join("run").exists() && !tree.join("half").exists());
        fs::write(tree.join("mark"), "").expect("room for a file");
        let again = commit.check_out(root, &folder).expect("a tree");
        assert!(again == tree && again.join("mark").exists());
    }

    #[test]
    fn what_names_no_commit_is_said_with_the_next_step() {
        let repository = repository();
        for revision in ["no-such", "--help", ""] {
            let error = Commit::of(repository.path(), revision).expect_err("no commit");
            let text = error.to_string();
            assert!(
                text.contains(&format!("`{revision}` names no commit")),
                "{text}"
            );
            assert!(text.contains("git fetch"), "{text}");
        }
    }
}
