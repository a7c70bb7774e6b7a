package solo

import "net/http"

// refusingHandler is a server with this model list that takes no prompt.
func refusingHandler(list string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(list)) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "token id is out of the vocabulary", http.StatusBadRequest)
	})
	return mux
}

// pageHandler is a server that has nothing but a metrics page.
func pageHandler(text string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	return mux
}
