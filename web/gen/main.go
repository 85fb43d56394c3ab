//go:build !js

// Command gen builds the site: both programs, the prerendered page, the service worker and everything they load.
//
//	go run ./web/gen -out web/dist -prefix /kvlens
//
// The result is a folder for any static host. It replaces the output folder only when every file has been checked.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
)

// placeholder stands for the version until all other bytes of the site are known; the version is their hash.
const placeholder = "kvlens-version-of-this-site"

// site is one run of the generator.
type site struct {
	dir    string // folder in the making
	prefix string // "" or "/name", without a slash at the end
	domain string // host name for the page's social metadata
	budget bool   // fail on a program that is too large
	text   map[string]shellText
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	out := flag.String("out", "web/dist", "output folder, replaced as a whole")
	prefix := flag.String("prefix", "", "path under which the site is served, such as /kvlens")
	domain := flag.String("domain", "localhost", "host name, for the page's social metadata only")
	budget := flag.Bool("budget", false, "fail when a program is larger than its budget")
	flag.Parse()
	if err := generate(*out, *prefix, *domain, *budget); err != nil {
		log.Fatal(err)
	}
}

var validPrefix = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

func generate(out, prefix, domain string, budget bool) error {
	prefix = strings.TrimRight(prefix, "/")
	if !validPrefix.MatchString(prefix) {
		return fmt.Errorf("prefix %q: want a path such as /kvlens", prefix)
	}
	s := &site{dir: out + ".new", prefix: prefix, domain: domain, budget: budget}
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	for _, step := range []func() error{
		s.compile, s.copyStatic, s.copyModels, s.icons, s.prerender, s.stamp, s.check, s.compress,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(s.dir, out)
}
