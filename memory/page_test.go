package memory_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"ringlet/memory"
	"ringlet/shmem"
)

// A page for the browser shows a word in the memory of another host.
func Example_page() {
	ctx := context.Background()
	all := hosts("a", "b")
	segment := must(shmem.Create(fmt.Sprintf("ringlet-example-%d-page", os.Getpid()), memory.PageSize))
	binary.LittleEndian.PutUint64(segment.Bytes(), 42)
	export := must(all[0].Export("word", segment, memory.Pages{
		Count: 1,
		Peer:  memory.Everybody,
		Allow: memory.AllowRead,
	}))
	word := must(all[1].Import(ctx, "word@a"))

	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b [8]byte
		if err := word.Read(r.Context(), 0, b[:]); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "<meta http-equiv=refresh content=1><h1>%d</h1>", binary.LittleEndian.Uint64(b[:]))
	}))
	answer := must(http.Get(page.URL))
	fmt.Println(string(must(io.ReadAll(answer.Body))))
	done(answer.Body.Close())
	page.Close()
	http.DefaultClient.CloseIdleConnections()

	done(export.Close())
	for _, h := range all {
		h.close()
	}
	done(segment.Close())
	// Output: <meta http-equiv=refresh content=1><h1>42</h1>
}
