package event

import "bytes"

// BytesToDescribe is how many bytes of a file's beginning DescribeForeign needs to recognise every format.
const BytesToDescribe = 512

// foreignFormats are formats that Ringlet does not read, recognised by the magic number at an offset of the file.
var foreignFormats = []struct {
	offset      int
	magic       string
	description string // completes "it looks like …"
	advice      string
}{
	{0, "\x1f\x8b", "data that gzip has compressed", "unpack it: gunzip"},
	{0, "\x28\xb5\x2f\xfd", "data that zstd has compressed", "unpack it: unzstd"},
	{0, "\xfd7zXZ\x00", "data that xz has compressed", "unpack it: unxz"},
	{0, "\x04\x22\x4d\x18", "data that lz4 has compressed", "unpack it: unlz4"},
	{0, "BZh", "data that bzip2 has compressed", "unpack it: bunzip2"},
	{0, "PK\x03\x04", "a ZIP archive", "unpack it: unzip"},
	{257, "ustar", "a tar archive", "unpack it: tar xf"},
	{0, "\x89HDF\r\n\x1a\n", "a file of HDF5", "write its events as MDF, MEP or MFP"},
	{0, "root", "a file of ROOT", "write its events as MDF, MEP or MFP"},
	{0, "PAR1", "a file of Parquet, such as ringlet-convert makes", "give the files of the run that it was made of"},
	{0, "_DET", "a native file of EUDAQ 1, whose events begin with _DET", eudaq2Advice},
	{0, "_RAW", "a native file of EUDAQ 1, whose events begin with _RAW", eudaq2Advice},
	{0, "_TLU", "a native file of EUDAQ 1, whose events begin with _TLU", eudaq2Advice},
	{0, "\x7fELF", "a program", "give a file of data"},
	{0, "SQLite format 3\x00", "a database of SQLite", "give a file of data"},
	{0, "\xd4\xc3\xb2\xa1", "a capture of packets (pcap)", "give a file of events"},
	{0, "\x0a\x0d\x0d\x0a", "a capture of packets (pcapng)", "give a file of events"},
	{0, "RIFF", "a file of sound or images (RIFF)", "give a file of data"},
	{0, "\x93NUMPY", "an array of NumPy", "write its events as MDF, MEP or MFP"},
	{0, "SIMPLE  =", "a file of FITS", "write its events as MDF, MEP or MFP"},
}

const eudaq2Advice = "write it anew with the native writer of EUDAQ 2"

// TextDescription is the description of a text file. A damaged file of events may look like text too.
const TextDescription = "text"

// minTextBytes is how many bytes a text must have to be recognised.
const minTextBytes = 16

// DescribeForeign recognises a file that Ringlet cannot read by its beginning, head, and returns what the file looks
// like and what the user can do; both are empty for an unknown format. The caller has already excluded the formats
// that Ringlet reads: MDF, MEP, MFP and EUDAQ 2.
func DescribeForeign(head []byte) (description, advice string) {
	for _, l := range foreignFormats {
		if len(head) >= l.offset+len(l.magic) && string(head[l.offset:l.offset+len(l.magic)]) == l.magic {
			return l.description, l.advice
		}
	}
	if len(head) >= minTextBytes && bytes.IndexFunc(head, isBinary) < 0 {
		return TextDescription, "give a file of data"
	}
	return "", ""
}

// isBinary says whether a text cannot contain the letter.
func isBinary(r rune) bool {
	return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f || r == 0xfffd
}
