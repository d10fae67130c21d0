// Package safeopen opens files that somebody named: regular files and nothing else, without waiting for anybody.
//
// A name may stand for a named pipe that nobody writes to, a terminal, a device or a socket. To open one of those may
// block for ever, beyond the reach of a signal, and to read one may never end. So Open looks before it opens, opens
// without waiting, and looks again at what it has opened. What is refused is a *NotRegularError, which says what it is.
//
// OpenNoFollow and its like are for files of a directory that others may write, as an output is: they open no symbolic
// link, since whoever has left it there chooses the file it leads to. They look at the last part of a path only.
//
// AllowedPaths are the directories from which files may be taken when the one who names them is not the one who runs
// the process.
//
// What this cannot help against is a file system that does not answer, as that of a server which is gone: its regular
// files block like pipes do.
package safeopen
