// Package eudaq reads the raw data of EUDAQ 2: the events that its native file writer serialises, one after the other,
// in little-endian byte order.
//
// Source: main/lib/core/src/Event.cc (Event::Serialize) and main/lib/core/include/eudaq/Serializer.hh of eudaq/eudaq.
// docs/format/eudaq.md draws the event.
//
//  1. HasSignature says by the first bytes whether a file may hold such events.
//  2. Parse views an event and its sub-events. It does not interpret their blocks: each producer has its own format.
//
// It does not read files of EUDAQ 1, nor events of classes that serialise more than an Event does.
package eudaq
