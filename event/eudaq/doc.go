// Package eudaq reads the raw data of EUDAQ 2: the events that its native file writer serialises, one behind the other,
// all of it little-endian.
//
// Source: main/lib/core/src/Event.cc (Event::Serialize) and main/lib/core/include/eudaq/Serializer.hh of eudaq/eudaq.
// docs/format/eudaq.md draws the event.
//
//  1. HasSignature tells by the first bytes whether a file may be such a file.
//  2. Parse views an event and its sub-events. What the blocks in them mean is the producers' affair.
//
// Files of EUDAQ 1, and events of classes that serialise more than an Event does, are not read.
package eudaq
