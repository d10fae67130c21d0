// Package safeopen opens files by names that users or peers give: regular files and nothing else, without blocking.
//
// A name may stand for a named pipe without a writer, a terminal, a device or a socket. Opening one of those may block
// for ever, even a signal cannot end that, and reading it may never end. Therefore Open checks the kind of the file,
// opens without waiting, and checks the open file again. Any other kind is refused with a *NotRegularError.
//
// OpenNoFollow and its like are for files in a directory that other users may write, such as an output. They open no
// symbolic link: another user may have made it, and would choose the file that Ringlet reads or changes. They check the
// last part of a path only.
//
// AllowedPaths are the directories from which a process may read files that a remote user names.
//
// The package does not help against a file system that does not answer, such as that of a server that is down: its
// regular files block like pipes.
package safeopen
