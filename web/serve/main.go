//go:build !js

// Command serve serves the generated site on this machine.
//
//	go run ./web/serve -dir web/dist -prefix /kvlens
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kvlens/web/serve/files"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("serve: ")
	dir := flag.String("dir", "web/dist", "folder of the generated site")
	prefix := flag.String("prefix", "", "path under which the site was generated, such as /kvlens")
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on; if its port is taken, a free one is used")
	flag.Parse()
	if err := serve(*dir, strings.TrimRight(*prefix, "/"), *addr); err != nil {
		log.Fatal(err)
	}
}

func serve(dir, prefix, addr string) error {
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err != nil {
		return fmt.Errorf("%s holds no site; make one with: go run ./web/gen -out %s", dir, dir)
	}
	listener, err := listen(addr)
	if err != nil {
		return err
	}
	fmt.Printf("KV Lens is at http://%s%s/ (Ctrl-C stops it)\n", listener.Addr(), prefix)

	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	server := &http.Server{Handler: files.Handler(dir, prefix), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-stop.Done():
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return server.Close()
	}
}

// listen takes the address, or a free port of the same host when its port is taken.
func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, splitErr := net.SplitHostPort(addr)
		if splitErr != nil {
			return nil, splitErr
		}
		return net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	return listener, err
}
