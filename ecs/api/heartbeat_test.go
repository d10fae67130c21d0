package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestAQuietStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		e := &eventStream{
			ctx: t.Context(),
			w:   w,
			rc:  http.NewResponseController(w),
			req: &ecsv1.WatchRequest{},
		}
		if err := e.SendHeader(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*heartbeatInterval + time.Second)
		if err := e.SendMsg(&ecsv1.Event{Number: 7}); err != nil {
			t.Fatal(err)
		}
		e.end(nil)
		time.Sleep(10 * heartbeatInterval)
		if got := w.Body.String(); strings.Count(got, ": still here\n\n") != 2 || !strings.Contains(got, "id: 7\ndata: {") {
			t.Errorf("the stream is %q", got)
		}
	})
}
