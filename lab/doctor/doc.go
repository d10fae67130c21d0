// Package doctor says before a run what on this host would hold it up: socket buffers, packet sizes, memory, ports,
// disk, clocks.
//
// It stands for the demand that a shift crew gets an answer to "what is wrong and what do I do", and for
// LHCb-EB §III.A. What is wrong while a run goes on is the matter of package
// ecs/diagnosis.
//
// The caller says in Options where to look, takes Facts with Read, and has them judged with Judge, a pure function:
// facts that were recorded elsewhere are judged alike. Wants says what a configuration needs of the host, made by
// WantsOf.
//
// Read changes nothing that lasts: it binds the ports for a moment and, if there is a peer, sends it a few UDP
// datagrams that nobody takes, to hear whether they arrive. It does not promise that a run succeeds when every check
// does.
package doctor
