package node

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/profile"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Profile sends a profile of this process to the control, which checks the rights of its user.
func (s *service) Profile(req *nodev1.ProfileRequest, out nodev1.Node_ProfileServer) error {
	if err := s.node.access.admitAnyTerm(out.Context(), "Profile"); err != nil {
		return err
	}
	length := time.Duration(req.GetLengthMs()) * time.Millisecond
	err := profile.WriteProfile(out.Context(), pieceWriter{out}, req.GetKind(), length)
	var wrong *profile.KindError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// pieceWriter sends what is written to it in pieces that fit a message.
type pieceWriter struct{ out nodev1.Node_ProfileServer }

// maxPieceBytes is far below the 4 MiB that gRPC accepts by default.
const maxPieceBytes = 256 << 10

func (p pieceWriter) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		piece := b[n:min(len(b), n+maxPieceBytes)]
		if err := p.out.Send(&nodev1.ProfileResponse{Data: piece}); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return len(b), nil
}

// ReadProfile writes a profile of the node at client to w.
func ReadProfile(ctx context.Context, client nodev1.NodeClient, w io.Writer, kind string, length time.Duration) error {
	in, err := client.Profile(ctx, &nodev1.ProfileRequest{Kind: kind, LengthMs: uint32(length.Milliseconds())})
	if err != nil {
		return err
	}
	for {
		piece, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if _, err := w.Write(piece.GetData()); err != nil {
			return err
		}
	}
}
