package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

// stream is one answer that waits for its events.
type stream struct {
	conn net.Conn
	id   int // the prompt's first token
}

// serveTicks is the server: it waits for so many streams, then writes rounds of
// events, one to each stream in turn, evenly spread. GET /log has the times of
// all writes, stream by stream.
func serveTicks(args []string) error {
	if len(args) != 3 {
		return errors.New("the server takes STREAMS ROUNDS PER_SECOND")
	}
	var n [3]int
	for i, a := range args {
		v, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		n[i] = v
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	var all []stream
	for len(all) < n[0] {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		id, err := accept(c)
		if err != nil {
			return err
		}
		all = append(all, stream{c, id})
	}
	log, err := tick(all, n[1], n[2])
	if err != nil {
		return err
	}
	return serveLog(l, log)
}

// accept reads one request and answers with the head of a stream.
func accept(c net.Conn) (id int, err error) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return 0, err
	}
	// {"…":…,"prompt":[17,…],…}
	for i := 0; i+10 < len(body); i++ {
		if string(body[i:i+10]) == `"prompt":[` {
			if _, err := fmt.Sscanf(string(body[i+10:]), "%d", &id); err != nil {
				return 0, err
			}
		}
	}
	_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	return id, err
}

// tick writes all events. What goes out is an event of a real server's size,
// one write each.
func tick(all []stream, rounds, perSecond int) (log [][]int64, err error) {
	runtime.LockOSThread()
	log = make([][]int64, len(all))
	gap := time.Second / time.Duration(perSecond)
	start := time.Now().Add(200 * time.Millisecond)
	var buf []byte
	for r := range rounds {
		for i, s := range all {
			due := start.Add(time.Duration(r)*gap + gap*time.Duration(i)/time.Duration(len(all)))
			if d := time.Until(due); d > 0 {
				time.Sleep(d)
			}
			finish := "null"
			if r == rounds-1 {
				finish = `"length"`
			}
			now := time.Now().UnixNano()
			event := fmt.Appendf(nil, `data: {"id":"cmpl-6f0c8d2a4b1e4f7c9d3e5a7b","object":"text_completion","created":1796037043,"model":"sim","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":%s,"stop_reason":null}],"t":%d}`+"\n\n", finish, now)
			buf = fmt.Appendf(buf[:0], "%x\r\n%s\r\n", len(event), event)
			if _, err := s.conn.Write(buf); err != nil {
				return nil, err
			}
			log[i] = append(log[i], now)
		}
	}
	byID := make([][]int64, len(all))
	for i, s := range all {
		usage := fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", rounds)
		if _, err := fmt.Fprintf(s.conn, "%x\r\n%s\r\n0\r\n\r\n", len(usage), usage); err != nil {
			return nil, err
		}
		if s.id < 0 || s.id >= len(byID) {
			return nil, fmt.Errorf("a prompt begins with %d; it must be the stream's number", s.id)
		}
		byID[s.id] = log[i]
	}
	return byID, nil
}

// serveLog answers every further request with the log, until it is killed.
func serveLog(l net.Listener, log [][]int64) error {
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := bufio.NewWriter(w)
		for _, times := range log {
			for i, t := range times {
				if i > 0 {
					fmt.Fprint(out, " ")
				}
				fmt.Fprint(out, t)
			}
			fmt.Fprintln(out)
		}
		if err := out.Flush(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}))
}
