//go:build !js

package main

import (
	"net"
	"testing"
)

func TestListenTakesAFreePortWhenItsOwnIsTaken(t *testing.T) {
	first, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := listen(first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if a, b := first.Addr().(*net.TCPAddr).Port, second.Addr().(*net.TCPAddr).Port; a == b {
		t.Errorf("both listen on port %d", a)
	}
}
