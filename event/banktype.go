package event

import "strconv"

// BankType is the type of a raw bank, and of a fragment in an MFP: LHCb uses
// one list for both.
type BankType uint8

// The types Ringlet itself reads or writes. 89..94 take the place of a fragment that could not be read out
// (docs/format/rawbank.md); 240 to 242 are Ringlet's own, far above the highest type LHCb has given out.
const (
	FragmentThrottled         BankType = 89 // read-out was throttled
	FragmentBXIDCorrupted     BankType = 90 // bunch id corrupted
	FragmentSyncBXIDCorrupted BankType = 91 // bunch id out of synchronisation
	FragmentMissing           BankType = 92 // the source gave nothing for this event
	FragmentTruncated         BankType = 93 // larger than the read-out allows
	FragmentIdleBXIDCorrupted BankType = 94 // idle, with a corrupted bunch id

	// TestDet is LHCb's type for the data of a test detector. A fragment whose front-end names no type has this one.
	TestDet BankType = 51
	// FragmentContainer is the fragment type of replayed data: whole raw banks
	// one after another (docs/format/mdf.md, "Replay").
	FragmentContainer BankType = 240
	// RecordBank is the type of the bank that carries an MDF record's header
	// and the cabling of its banks through the event builder.
	RecordBank BankType = 241
	// FragmentPiece is the type of the banks that together hold a fragment too large for one (docs/format/rawbank.md,
	// "Chains").
	FragmentPiece BankType = 242
)

// String is the name LHCb gives the type, or the number of a type without a name.
func (t BankType) String() string {
	if name := bankTypeNames[t]; name != "" {
		return name
	}
	return strconv.Itoa(int(t))
}

// bankTypeNames are LHCb's names of the types in use in Run 3 and of older types that recorded files are full of. It is
// a table and not a map, since a dump calls String for each of its lines.
var bankTypeNames = [256]string{
	8: "Velo", 9: "Rich", 10: "TT", 11: "IT", 12: "OT", 13: "Muon", 15: "DAQ", 16: "ODIN", 17: "HltDecReports",
	21: "EcalPacked", 22: "HcalPacked", 23: "PrsPacked", 44: "GaudiSerialize", 45: "GaudiHeader",
	48: "TAEHeader", 49: "MuonFull", 50: "MuonError", 51: "TestDet", 53: "HltRoutingBits",
	54: "HltSelReports", 55: "HltVertexReports", 56: "HltLumiSummary", 59: "DstBank", 60: "DstData", 61: "DstAddress",
	62: "FileID", 63: "VP", 64: "FTCluster", 65: "VL", 66: "UT", 67: "UTFull", 68: "UTError", 69: "UTPedestal",
	70: "HC", 71: "HltTrackReports", 72: "HCError", 73: "VPRetinaCluster", 74: "FTGeneric", 75: "FTCalibration",
	76: "FTNZS", 77: "Calo", 78: "CaloError", 79: "MuonSpecial", 80: "RichCommissioning", 81: "RichError",
	82: "FTSpecial", 83: "CaloSpecial", 84: "Plume", 85: "PlumeSpecial", 86: "PlumeError",
	87: "VeloThresholdScan", 88: "FTError",
	FragmentThrottled:         "FragmentThrottled",
	FragmentBXIDCorrupted:     "FragmentBXIDCorrupted",
	FragmentSyncBXIDCorrupted: "FragmentSyncBXIDCorrupted",
	FragmentMissing:           "FragmentMissing",
	FragmentTruncated:         "FragmentTruncated",
	FragmentIdleBXIDCorrupted: "FragmentIdleBXIDCorrupted",
	FragmentContainer:         "Container",
	RecordBank:                "Record",
	FragmentPiece:             "Piece",
}
