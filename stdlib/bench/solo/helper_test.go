package solo

import "net/http"

// pageHandler is a server that has nothing but a metrics page.
func pageHandler(text string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	return mux
}
