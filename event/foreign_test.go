package event

import (
	"strings"
	"testing"
)

func TestLooksNamesFilesOfOthers(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar"
	for head, want := range map[string]string{
		"\x1f\x8b\x08\x00": "gzip", "\x28\xb5\x2f\xfd": "zstd", "\x89HDF\r\n\x1a\n": "HDF5", "root\x00\x00\xf7": "ROOT",
		"_DET\x00\x00\x00\x00\x16": "EUDAQ 1", "PAR1": "Parquet", "event,source,size\n1,2,3\n": "text", tar: "tar",
		"\xfd7zXZ\x00": "xz", "\x04\x22\x4d\x18": "lz4",
	} {
		if is, do := DescribeForeign([]byte(head)); !strings.Contains(is, want) || do == "" {
			t.Errorf("%.20q looks like %q; %s", head, is, do)
		}
	}
	for _, head := range []string{"", "x", "short text", "\x00\x01\x02\x03", strings.Repeat("\xff", 64)} {
		if is, _ := DescribeForeign([]byte(head)); is != "" {
			t.Errorf("%.20q looks like %s", head, is)
		}
	}
}
